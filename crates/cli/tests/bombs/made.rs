//! Recordings that an attacker could hand in: sealed, well formed, and expensive to read.

use std::fs::File;
use std::path::Path;

use vmnoise_events::*;
use vmnoise_recording::Writer;

use crate::join_pair::facts;

pub(super) const ALL_CPUS: u32 = 8_192;

/// Kind of such a recording.
#[derive(Debug, Clone, Copy)]
pub struct Bomb {
    pub name: &'static str,
    workload: MeasuringCommand,
    cpus: u32,
    /// Period of periodic tasks.
    period_ns: u64,
    /// Events of each turn; a turn adds as many rows.
    turn: fn(u64) -> Vec<Event>,
}

const fn bomb(
    name: &'static str,
    workload: MeasuringCommand,
    cpus: u32,
    turn: fn(u64) -> Vec<Event>,
) -> Bomb {
    Bomb {
        name,
        workload,
        cpus,
        period_ns: 1,
        turn,
    }
}

/// Ordinary recording for comparison: an interrupt in every gap, and a watermark from time to time.
pub const ORDINARY: Bomb = bomb("ordinary", MeasuringCommand::Osnoise, 4, |turn| {
    let (cpu, at_ns) = ((turn % 4) as u32, 1_000_000 + turn * 20_000);
    let mut events = vec![
        gap(cpu, at_ns, at_ns + 5_000),
        irq(cpu, at_ns + 1_000, at_ns + 4_000, 0),
    ];
    if turn % 50 == 49 {
        events.extend([
            anchor(at_ns + 10_000),
            tally(cpu, at_ns + 9_000),
            Event::Watermark(at_ns),
        ]);
    }
    events
});

pub const BOMBS: &[Bomb] = &[
    bomb(
        "gaps that hold all that comes after them",
        MeasuringCommand::Osnoise,
        1,
        |turn| {
            let at_ns = 1_000 + turn * 10;
            vec![gap(0, at_ns, 1 << 40), irq(0, at_ns + 5, at_ns + 8, 0)]
        },
    ),
    bomb("a CPU in each row", MeasuringCommand::Osnoise, 1, |turn| {
        vec![gap(turn as u32, 0, 1 << (turn % 60))]
    }),
    bomb(
        "lengths of all kinds on every CPU",
        MeasuringCommand::Osnoise,
        ALL_CPUS,
        |turn| {
            let cpu = (turn % 8_192) as u32;
            vec![
                tally(cpu, turn),
                gap(cpu, turn, turn + (1 << (turn % 51)) + turn),
            ]
        },
    ),
    bomb(
        "a source for each gap",
        MeasuringCommand::Osnoise,
        ALL_CPUS,
        |turn| {
            let (cpu, at_ns) = ((turn % 8_192) as u32, 1_000 + turn * 100);
            vec![
                source(turn + 1),
                irq(cpu, at_ns, at_ns + 50, turn + 1),
                gap(cpu, at_ns, at_ns + 60),
            ]
        },
    ),
    bomb(
        "tasks that are late by millions of periods",
        MeasuringCommand::Timerlat,
        1,
        |turn| {
            let at_ns = turn * 3_000_000_000;
            vec![
                wakeup(0, at_ns, at_ns + 2_000_000_000 + turn),
                Event::Watermark(at_ns),
            ]
        },
    ),
    Bomb {
        period_ns: 1 << 21,
        ..bomb(
            "a late task on every CPU",
            MeasuringCommand::Timerlat,
            ALL_CPUS,
            |turn| {
                vec![wakeup(
                    (turn % 8_192) as u32,
                    turn << 20,
                    (turn << 20) + (1 << 40) + turn * 977,
                )]
            },
        )
    },
    bomb(
        "gaps under activities that never end",
        MeasuringCommand::Osnoise,
        1,
        |turn| {
            let at_ns = 1_000 + turn * 100;
            vec![irq(0, at_ns, u64::MAX - turn, 0), gap(0, at_ns, at_ns + 50)]
        },
    ),
    bomb(
        "gaps under activities that never end, explained one by one",
        MeasuringCommand::Osnoise,
        1,
        |turn| {
            let at_ns = 1_000 + turn * 100;
            let reported = vec![irq(0, at_ns, u64::MAX - turn, 0), gap(0, at_ns, at_ns + 50)];
            [
                reported,
                vec![anchor(at_ns + 60), Event::Watermark(at_ns + 50)],
            ]
            .concat()
        },
    ),
    bomb(
        "watermarks for thousands of CPUs",
        MeasuringCommand::Osnoise,
        ALL_CPUS,
        |turn| {
            vec![
                anchor(1_000_000_000 * (turn + 1)),
                Event::Watermark(1_000_000_000 * turn),
            ]
        },
    ),
    bomb(
        "thousands of CPUs that are alive, and watermarks",
        MeasuringCommand::Osnoise,
        ALL_CPUS,
        |turn| {
            let at_ns = 1_000_000_000 * (turn + 1);
            let cpu = (turn % 8_192) as u32;
            vec![
                tally(cpu, at_ns),
                anchor(at_ns),
                Event::Watermark(at_ns - 1),
            ]
        },
    ),
    bomb(
        "gaps that are not over",
        MeasuringCommand::Osnoise,
        1,
        |turn| vec![gap(0, turn, u64::MAX - turn), Event::Watermark(turn)],
    ),
    bomb(
        "wake-ups that are not over",
        MeasuringCommand::Timerlat,
        1,
        |turn| vec![wakeup(0, turn, u64::MAX - turn), Event::Watermark(turn)],
    ),
    bomb(
        "activities that are to come",
        MeasuringCommand::Osnoise,
        1,
        |turn| {
            vec![
                irq(0, (1 << 60) - turn, (1 << 60) + turn, 0),
                Event::Watermark(turn),
            ]
        },
    ),
    bomb(
        "exits in exits in one gap",
        MeasuringCommand::Microvm,
        1,
        |turn| {
            let mut nested = Activity {
                kind: ActivityKind::Exit,
                steal_ns: 1,
                ..activity(0, 2_000 + turn, (1 << 50) - turn, 0)
            };
            if turn == 0 {
                return vec![anchor(1_000), gap(0, 1_000, 1 << 51)];
            }
            if turn % 2 == 0 {
                nested.kind = ActivityKind::Vmm;
            }
            vec![Event::Activity(nested)]
        },
    ),
    bomb("a vCPU for each exit", MeasuringCommand::Exits, 0, |turn| {
        vec![
            vcpu(turn),
            exit(turn, turn * 1_000_000, 900_000),
            totals(turn, 1_000_000),
        ]
    }),
    bomb(
        "exits that are not over",
        MeasuringCommand::Exits,
        0,
        |turn| {
            vec![
                vcpu(0),
                exit(0, turn, u64::MAX / 2 - turn),
                Event::Watermark(turn),
            ]
        },
    ),
    bomb(
        "intervals that no exit takes",
        MeasuringCommand::Exits,
        0,
        |turn| {
            let at_ns = 1_000 + turn * 10;
            let interval = VcpuInterval {
                vcpu: VcpuId(0),
                kind: VcpuIntervalKind::Waiting,
                start_mono_ns: at_ns,
                end_mono_ns: u64::MAX - turn,
                cpu: 0,
                to_cpu: 0,
                source: None,
            };
            vec![vcpu(0), Event::VcpuInterval(interval), exit(0, at_ns, 9)]
        },
    ),
    bomb("sums that overflow", MeasuringCommand::Exits, 0, |turn| {
        vec![vcpu(turn), totals(turn, u64::MAX / 3)]
    }),
    bomb("frames of a host", MeasuringCommand::Osnoise, 64, |turn| {
        vec![
            frame(turn),
            tally((turn % 64) as u32, turn * 1_000),
            Event::Watermark(turn * 500),
        ]
    }),
];

impl Bomb {
    /// Writes the recording with `bytes` bytes or little more.
    pub fn write(&self, path: &Path, bytes: u64) {
        let mut facts = facts(self.workload);
        facts.options.cpus = (0..self.cpus).collect();
        facts.host.apic_ids = (0..self.cpus).map(|cpu| (cpu, cpu)).collect();
        facts.options.threshold_ns = 0;
        facts.host.name = Some("stranger".into());
        if let Some(timer) = &mut facts.options.timer {
            timer.period_ns = self.period_ns;
        }
        let mut writer = Writer::unchecked(File::create(path).unwrap(), &facts).unwrap();
        let mut push = |event: &Event| writer.push(event).unwrap();
        if !self.name.contains("vCPU") {
            push(&source(0));
        }
        push(&anchor(0));
        let mut written = 0;
        for turn in 0.. {
            let events = (self.turn)(turn);
            events.iter().for_each(&mut push);
            written += events.iter().map(bytes_of).sum::<u64>();
            if written >= bytes {
                break;
            }
        }
        writer.finish().unwrap();
    }
}

/// Returns the approximate size of an event in the file.
pub(super) fn bytes_of(event: &Event) -> u64 {
    match event {
        Event::Vcpu(_) => 150,
        Event::Exit(_) => 110,
        Event::VcpuTotals(_) => 450,
        Event::HostFrame(_) => 600,
        _ => 90,
    }
}

pub(super) fn source(id: u64) -> Event {
    Event::Source(Source {
        id: SourceId(id as u32),
        name: format!("source:{id}").into(),
    })
}

pub(super) fn anchor(at_ns: u64) -> Event {
    Event::Anchor(Anchor {
        before_tsc: at_ns,
        mono_ns: at_ns,
        after_tsc: at_ns,
    })
}

pub(super) fn tally(cpu: u32, last_tsc: u64) -> Event {
    Event::Tally(CpuTally {
        cpu,
        last_tsc,
        ..CpuTally::default()
    })
}

pub(super) fn gap(cpu: u32, start_tsc: u64, end_tsc: u64) -> Event {
    Event::Gap(Gap {
        cpu,
        start_tsc,
        end_tsc,
        steal_ns: 0,
        reloads: 0,
        light_exits: 0,
        heavy_exits: 0,
        interference: None,
        run_delay_ns: 0,
    })
}

fn activity(cpu: u32, start_mono_ns: u64, end_mono_ns: u64, source: u64) -> Activity {
    Activity {
        cpu,
        kind: ActivityKind::Irq,
        start_mono_ns,
        end_mono_ns,
        source: SourceId(source as u32),
        steal_ns: 0,
    }
}

pub(super) fn irq(cpu: u32, start_ns: u64, end_ns: u64, source: u64) -> Event {
    Event::Activity(activity(cpu, start_ns, end_ns, source))
}

pub(super) fn wakeup(cpu: u32, expiry_mono_ns: u64, woke_mono_ns: u64) -> Event {
    Event::Activation(Activation {
        cpu,
        expiry_mono_ns,
        woke_mono_ns,
        armed_mono_ns: None,
        irq_mono_ns: None,
        waking_mono_ns: None,
        switch_mono_ns: None,
        steal_ns: [0; 5],
        missed: 0,
    })
}

pub(super) fn vcpu(id: u64) -> Event {
    Event::Vcpu(Vcpu {
        id: VcpuId(id as u32),
        tid: 10_000 + id as u32,
        vmm_pid: 1_000 + id as u32,
        number: Some(0),
        vm: 0,
        vm_name: "vm".into(),
        identity: Default::default(),
        sees_kvm: true,
    })
}

pub(super) fn split(ns: u64) -> ShareMap<u64> {
    ShareMap::from([
        (Share::Kvm, ns),
        (Share::Preempted, ns),
        (Share::Vmm, ns),
        (Share::Blocked, ns),
    ])
}

pub(super) fn exit(vcpu: u64, start_mono_ns: u64, dur_ns: u64) -> Event {
    Event::Exit(VcpuExit {
        vcpu: VcpuId(vcpu as u32),
        exit: Exit {
            start_mono_ns,
            end_mono_ns: start_mono_ns + dur_ns,
            reason: ExitReason {
                isa: Isa::Vmx,
                code: start_mono_ns % 60,
            },
            exit_cpu: 0,
            entry_cpu: 0,
            heavy: false,
            split: ShareMap::from([(Share::Kvm, dur_ns)]),
        },
    })
}

fn totals(vcpu: u64, ns: u64) -> Event {
    Event::VcpuTotals(VcpuTotals {
        vcpu: VcpuId(vcpu as u32),
        first_mono_ns: 1,
        last_mono_ns: 1_000_000_000,
        exits: ns,
        heavy: ns,
        unseen_ns: 0,
        split: split(ns),
        worst: None,
        reasons: vec![ReasonTotals {
            reason: None,
            count: ns,
            heavy: ns,
            min_ns: 1,
            max_ns: ns,
            split: split(ns),
            histogram: vec![(ns / 2, ns), (ns, ns)],
        }],
    })
}

pub(super) fn frame(turn: u64) -> Event {
    Event::HostFrame(HostFrame {
        vcpu: (turn % 64) as u32,
        from_tsc: 1,
        until_tsc: turn * 400,
        detail: FeedDetail::Full,
        sees_kvm: true,
        is_last: true,
        exits: turn,
        heavy: turn,
        split: split(u64::MAX / 7),
        lost: 0,
        reasons: vec![HostReason {
            name: format!("reason {turn}").into(),
            exits: u64::MAX,
            dur_ns: u64::MAX,
        }],
        culprits: vec![HostCulprit {
            share: Share::Preempted,
            name: format!("task:{turn}").into(),
            dur_ns: u64::MAX,
        }],
    })
}
