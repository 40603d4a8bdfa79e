//! Recordings with contradictory numbers: sealed, well formed, and impossible on any machine.

use std::fs::File;
use std::path::Path;

use vmnoise_events::*;
use vmnoise_recording::Writer;

use super::made::{anchor, exit, frame, gap, irq, source, vcpu, wakeup};
use super::pairs::{at_ns, facts_of_guest, fill_guest, fill_host};
use crate::join_pair::facts;

pub const WORKLOADS: [MeasuringCommand; 5] = [
    MeasuringCommand::Osnoise,
    MeasuringCommand::Microvm,
    MeasuringCommand::Timerlat,
    MeasuringCommand::Observed,
    MeasuringCommand::Exits,
];
const EVENTS: usize = 300;

/// Workloads of a guest that is joined with its host.
pub const JOINED: [MeasuringCommand; 2] = [MeasuringCommand::Osnoise, MeasuringCommand::Timerlat];
/// Size of each side: the first half proves the pair.
const PAIR_BYTES: u64 = 150_000;

/// Random numbers. The largest is half of the range of a signed number, so that output with the
/// digits of 2^64 cannot come from the input.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % end
    }

    fn any(&mut self) -> u64 {
        let some = [
            0,
            1,
            999,
            1_000_000,
            3_000_000_000,
            1 << 40,
            1 << 53,
            1 << 61,
            1 << 62,
        ];
        some[self.below(some.len() as u64) as usize] + self.below(1_000)
    }

    fn known(&mut self) -> Option<u64> {
        (self.below(3) > 0).then(|| self.any())
    }
}

/// Writes the recording of this seed.
pub fn write(path: &Path, workload: MeasuringCommand, seed: u64) {
    let mut facts = facts(workload);
    facts.options.cpus = (0..4).collect();
    facts.options.threshold_ns = 0;
    facts.options.top = 5;
    facts.host.name = Some("stranger".into());
    let mut numbers = Numbers(seed);
    let mut writer = Writer::unchecked(File::create(path).unwrap(), &facts).unwrap();
    let mut push = |event: Event| writer.push(&event).unwrap();
    push(source(0));
    push(anchor(0));
    (0..4).for_each(|id| push(vcpu(id)));
    let mut at_ns = 0;
    for _ in 0..EVENTS {
        // The clock goes forward most of the time.
        at_ns = match numbers.below(8) {
            0 => numbers.any(),
            _ => at_ns + numbers.below(100_000),
        };
        let event = event(&mut numbers, workload, at_ns);
        push(event);
    }
    push(Event::Finish(Finish {
        reason: FinishReason::Duration,
        mono_ns: at_ns,
    }));
    writer.finish().unwrap();
}

/// Writes a guest and its host of this seed: the first part is true and proves the pair, the rest
/// is nonsense.
pub fn write_pair(guest: &Path, host: &Path, workload: MeasuringCommand, seed: u64) {
    let mut numbers = Numbers(seed);
    let facts = facts_of_guest(workload, 1);
    fill_guest(guest, &facts, PAIR_BYTES, |turn| {
        vec![event(&mut numbers, workload, at_ns(turn))]
    });
    fill_host(host, PAIR_BYTES, |turn| {
        vec![event(&mut numbers, MeasuringCommand::Exits, at_ns(turn))]
    });
}

fn event(numbers: &mut Numbers, workload: MeasuringCommand, at_ns: u64) -> Event {
    let cpu = numbers.below(4) as u32;
    let dur_ns = match numbers.below(3) {
        0 => numbers.any(),
        _ => numbers.below(50_000),
    };
    let end_ns = at_ns.saturating_add(dur_ns);
    match (numbers.below(12), workload) {
        (0, _) => Event::Watermark(at_ns),
        (1, _) => anchor(at_ns),
        (2, _) => Event::OwnCost(OwnCost {
            bpf_runs: numbers.any(),
            bpf_ns: numbers.any(),
        }),
        (3, _) => Event::Loss(Loss {
            kind: LossKind::MailboxFull,
            count: numbers.any(),
        }),
        (4 | 5, _) => irq(cpu, at_ns, end_ns, 0),
        (6, MeasuringCommand::Exits) => exit(cpu.into(), at_ns, dur_ns),
        (_, MeasuringCommand::Exits) => totals(numbers, cpu, at_ns),
        (6, _) => frame(numbers.below(1_000)),
        (7 | 8, _) => tally(numbers, cpu, end_ns),
        (_, MeasuringCommand::Timerlat) => wakeup(cpu, at_ns, end_ns),
        _ => gap(cpu, at_ns, end_ns),
    }
}

fn tally(numbers: &mut Numbers, cpu: u32, last_tsc: u64) -> Event {
    Event::Tally(CpuTally {
        cpu,
        first_tsc: numbers.below(1_000),
        last_tsc,
        blind_tsc: numbers.known(),
        steal_clock_ns: numbers.known(),
        reloads: numbers.known(),
        light_exits: numbers.known(),
        heavy_exits: numbers.known(),
        kvm_stat_exits: numbers.known(),
        outer_steal_ns: numbers.known(),
        smi_count: numbers.known(),
        interference: None,
        posted: None,
    })
}

fn split(numbers: &mut Numbers) -> ShareMap<u64> {
    ShareMap::from([
        (Share::Kvm, numbers.any()),
        (Share::Vmm, numbers.any()),
        (Share::Preempted, numbers.any()),
        (Share::Halted, numbers.any()),
    ])
}

fn totals(numbers: &mut Numbers, vcpu: u32, last_mono_ns: u64) -> Event {
    let reason = |numbers: &mut Numbers, code| ReasonTotals {
        reason: Some(ExitReason {
            isa: Isa::Vmx,
            code,
        }),
        count: numbers.any(),
        heavy: numbers.any(),
        min_ns: numbers.any(),
        max_ns: numbers.any(),
        split: split(numbers),
        histogram: vec![(1_000, numbers.any()), (1 << 20, numbers.any())],
    };
    Event::VcpuTotals(VcpuTotals {
        vcpu: VcpuId(vcpu),
        first_mono_ns: 1 + numbers.below(1_000),
        last_mono_ns,
        exits: numbers.any(),
        heavy: numbers.any(),
        unseen_ns: numbers.any(),
        split: split(numbers),
        worst: None,
        reasons: vec![reason(numbers, 1), reason(numbers, 12)],
    })
}
