//! Pairs of guest and host that an attacker could hand in: they can be proven, and contain data
//! that make it expensive to find or join them.

use std::fs::File;
use std::path::Path;

use vmnoise_events::*;
use vmnoise_recording::Writer;

use super::made::{ALL_CPUS, anchor, bytes_of, gap, irq, source, wakeup};
use crate::join_pair::facts;

/// Kind of such a pair.
#[derive(Debug, Clone, Copy)]
pub struct BombPair {
    pub name: &'static str,
    /// Workload of the guest.
    workload: MeasuringCommand,
    /// Number of CPUs of the guest.
    cpus: u32,
    /// Events of each turn; a turn adds as many rows.
    guest: fn(u64) -> Vec<Event>,
    host: fn(u64) -> Vec<Event>,
}

const fn pair(
    name: &'static str,
    guest: fn(u64) -> Vec<Event>,
    host: fn(u64) -> Vec<Event>,
) -> BombPair {
    BombPair {
        name,
        workload: MeasuringCommand::Osnoise,
        cpus: 1,
        guest,
        host,
    }
}

/// Number of first turns, which prove any pair.
pub(super) const PROVEN: u64 = 600;

/// Ordinary pair for comparison: each exit is in a gap of its own.
pub const ORDINARY: BombPair = pair("an ordinary pair", ordinary_gap, ordinary_exit);

pub const PAIRS: &[BombPair] = &[
    BombPair {
        cpus: ALL_CPUS,
        ..pair(
            "any vCPU may be any CPU",
            |turn| {
                let (cpu, at_ns) = ((later(turn) % 8_192) as u32, at_ns(turn));
                vec![polled(cpu, at_ns), gap(cpu, at_ns - 200, at_ns + 5_300)]
            },
            |turn| {
                let id = later(turn);
                vec![
                    vcpu(id, 0, id),
                    clock(id, 0, 0),
                    exit(id, at_ns(turn), 5_000),
                ]
            },
        )
    },
    pair("a VM for each exit", ordinary_gap, |turn| {
        let id = later(turn);
        vec![
            vcpu(id, id, 0),
            clock(id, 0, 0),
            exit(id, at_ns(turn), 5_000),
        ]
    }),
    pair("a clock for each exit", ordinary_gap, |turn| {
        vec![
            clock(0, turn as i64, at_ns(turn)),
            exit(0, at_ns(turn), 5_000),
        ]
    }),
    pair(
        "a host whose clock jumps all the time",
        ordinary_gap,
        |turn| vec![jump(turn), exit(0, at_ns(turn), 5_000)],
    ),
    pair(
        "a guest whose clock jumps all the time",
        |turn| [vec![jump(turn)], ordinary_gap(turn)].concat(),
        ordinary_exit,
    ),
    pair(
        "interrupts in one gap with all exits",
        |turn| match turn {
            PROVEN => vec![
                gap(0, at_ns(turn), 1 << 50),
                polled(0, 1 << 51),
                anchor(1 << 51),
            ],
            _ => vec![irq(0, at_ns(turn) + 6_000, at_ns(turn) + 7_000, 0)],
        },
        ordinary_exit,
    ),
    pair(
        "gaps that hold all exits",
        |turn| vec![gap(0, at_ns(PROVEN) + turn, (1 << 50) + turn)],
        ordinary_exit,
    ),
    pair(
        "gaps that are not over, and watermarks",
        |turn| vec![gap(0, at_ns(turn), 1 << 62), Event::Watermark(at_ns(turn))],
        ordinary_exit,
    ),
    BombPair {
        workload: MeasuringCommand::Timerlat,
        ..pair(
            "tasks that are late for all exits",
            |turn| vec![wakeup(0, at_ns(turn), (1 << 50) + turn)],
            ordinary_exit,
        )
    },
    BombPair {
        cpus: ALL_CPUS,
        ..pair(
            "watermarks of a guest of thousands of CPUs",
            |turn| {
                vec![
                    polled((turn % 8_192) as u32, at_ns(turn)),
                    Event::Watermark(at_ns(turn)),
                ]
            },
            ordinary_exit,
        )
    },
];

impl BombPair {
    /// Writes both recordings, each with `bytes` bytes or little more.
    pub fn write(&self, guest: &Path, host: &Path, bytes: u64) {
        let of_guest = facts_of_guest(self.workload, self.cpus);
        fill_guest(guest, &of_guest, bytes, self.guest);
        fill_host(host, bytes, self.host);
    }
}

pub(super) fn facts_of_guest(workload: MeasuringCommand, cpus: u32) -> RunFacts {
    let mut facts = facts(workload);
    facts.options.cpus = (0..cpus).collect();
    facts.host.apic_ids = (0..cpus).map(|cpu| (cpu, cpu)).collect();
    facts.host.hypervisor = Some("KVM".into());
    facts.host.name = Some("guest".into());
    facts.options.threshold_ns = 1_000;
    facts.options.top = usize::MAX >> 1;
    facts
}

/// Writes gaps or wake-ups that prove the pair, and then these events.
pub(super) fn fill_guest(
    path: &Path,
    facts: &RunFacts,
    bytes: u64,
    then: impl FnMut(u64) -> Vec<Event>,
) {
    let first = match facts.workload {
        MeasuringCommand::Timerlat => task,
        _ => ordinary_gap,
    };
    fill(path, facts, bytes, first, then);
}

/// Writes exits that prove the pair, and then these events.
pub(super) fn fill_host(path: &Path, bytes: u64, then: impl FnMut(u64) -> Vec<Event>) {
    let mut facts = facts(MeasuringCommand::Exits);
    facts.host.name = Some("stranger".into());
    let first = |turn| match turn {
        0 => [vec![vcpu(0, 0, 0), clock(0, 0, 0)], ordinary_exit(turn)].concat(),
        _ => ordinary_exit(turn),
    };
    fill(path, &facts, bytes, first, then);
}

fn fill(
    path: &Path,
    facts: &RunFacts,
    bytes: u64,
    first: impl Fn(u64) -> Vec<Event>,
    mut then: impl FnMut(u64) -> Vec<Event>,
) {
    let mut writer = Writer::unchecked(File::create(path).unwrap(), facts).unwrap();
    let mut written = 0;
    writer.push(&source(0)).unwrap();
    for turn in 0.. {
        let mut events = if turn < PROVEN {
            first(turn)
        } else {
            then(turn)
        };
        if turn % 50 == 49 {
            let until_ns = at_ns(turn) + 8_000;
            events.extend([anchor(until_ns), Event::Watermark(until_ns)]);
        }
        events.iter().for_each(|event| writer.push(event).unwrap());
        written += events.iter().map(bytes_of).sum::<u64>();
        if written >= bytes && turn >= PROVEN {
            break;
        }
    }
    writer.finish().unwrap();
}

/// Irregular, so that no other offset fits as well.
pub(super) fn at_ns(turn: u64) -> u64 {
    let mixed = (turn + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    1_000_000 + turn * 30_000 + (mixed >> 32) % 17_000
}

/// Returns the number of a turn after those that prove the pair.
fn later(turn: u64) -> u64 {
    turn - PROVEN + 1
}

fn ordinary_gap(turn: u64) -> Vec<Event> {
    let at_ns = at_ns(turn);
    vec![gap(0, at_ns - 200, at_ns + 5_300), polled(0, at_ns + 6_000)]
}

/// Returns wake-ups that are in time between exits, and late for the exit.
fn task(turn: u64) -> Vec<Event> {
    let at_ns = at_ns(turn);
    vec![
        wakeup(0, at_ns - 500, at_ns - 400),
        wakeup(0, at_ns, at_ns + 5_300),
        polled(0, at_ns + 6_000),
    ]
}

fn ordinary_exit(turn: u64) -> Vec<Event> {
    vec![exit(0, at_ns(turn), 5_000)]
}

/// Returns an anchor whose TSC is far from the earlier anchors.
fn jump(turn: u64) -> Event {
    let at_ns = at_ns(turn);
    let tsc = at_ns + turn % 2 * 1_000_000_000;
    Event::Anchor(Anchor {
        before_tsc: tsc,
        mono_ns: at_ns,
        after_tsc: tsc,
    })
}

fn polled(cpu: u32, last_tsc: u64) -> Event {
    Event::Tally(CpuTally {
        cpu,
        first_tsc: 1,
        last_tsc,
        blind_tsc: Some(0),
        ..CpuTally::default()
    })
}

fn vcpu(id: u64, vm: u64, number: u64) -> Event {
    Event::Vcpu(Vcpu {
        id: VcpuId(id as u32),
        tid: 10_000 + id as u32,
        vmm_pid: 1_000 + vm as u32,
        number: Some(number as u32),
        vm: 0,
        vm_name: "vm".into(),
        identity: Default::default(),
        sees_kvm: true,
    })
}

fn clock(id: u64, offset_tsc: i64, from_mono_ns: u64) -> Event {
    Event::VcpuClock(VcpuClock {
        vcpu: VcpuId(id as u32),
        before_until_mono_ns: from_mono_ns,
        from_mono_ns,
        offset_tsc,
        ratio: 1,
        ratio_frac_bits: 0,
    })
}

fn exit(vcpu: u64, start_mono_ns: u64, dur_ns: u64) -> Event {
    Event::Exit(VcpuExit {
        vcpu: VcpuId(vcpu as u32),
        exit: Exit {
            start_mono_ns,
            end_mono_ns: start_mono_ns + dur_ns,
            reason: ExitReason {
                isa: Isa::Vmx,
                code: 1,
            },
            exit_cpu: 0,
            entry_cpu: 0,
            heavy: false,
            split: ShareMap::from([(Share::Kvm, dur_ns)]),
        },
    })
}
