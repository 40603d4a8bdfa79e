//! Tests the law of gaps with arbitrary streams. For any stream, budgets add up, shares add up to
//! the noise, nothing panics, and the same stream gives the same result.

use proptest::prelude::*;
use vmnoise_events::{
    Activity, ActivityKind, Anchor, CpuTally, Event, FeedDetail, Gap, HostCulprit, HostFrame,
    HostReason, InterferenceCounts, Loss, LossKind, MeasuringCommand, OwnCost, RunFacts, Share,
    ShareMap, Source, SourceId, Witnesses,
};

use super::holds_for;
use crate::laws::gaps::obeys_the_law;
use crate::streams;

/// Random words from which one event is made: the kind of event, its CPU, and four values.
type Words = (u8, u8, [u32; 4]);

/// Range of a stream's times. Half of the times are small, so that they collide.
#[derive(Clone, Copy)]
struct Times {
    /// Whether times extend to both ends of a u64, and clock readings are arbitrary.
    extreme: bool,
}

impl Times {
    fn at(self, word: u32) -> u64 {
        let value = u64::from(word >> 3);
        match word % 8 {
            0..=3 => value % 64,
            4 if self.extreme => value % 1_000_000,
            5 | 6 if self.extreme => value << 36,
            7 if self.extreme => u64::MAX - value % 64,
            _ => value % 3000,
        }
    }

    fn anchor(self, [a, b, c, _]: [u32; 4]) -> Anchor {
        let (before_tsc, after_tsc) = self.span(a, b);
        if self.extreme {
            Anchor {
                before_tsc,
                mono_ns: self.at(c),
                after_tsc,
            }
        } else {
            let after_tsc = after_tsc.min(before_tsc + 8);
            Anchor {
                before_tsc,
                mono_ns: before_tsc + u64::from(c % 8),
                after_tsc,
            }
        }
    }

    /// Returns a start and an end. In most cases, the end lies after the start.
    fn span(self, a: u32, b: u32) -> (u64, u64) {
        let start = self.at(a);
        if b.is_multiple_of(5) {
            (start, self.at(b / 5))
        } else {
            (start, start.saturating_add(self.at(b)))
        }
    }
}

/// Returns any frame of a host, possible or not. Some values are equal to those of earlier frames.
fn frame(times: Times, [a, b, c, d]: [u32; 4]) -> HostFrame {
    let (from_tsc, until_tsc) = times.span(a, b);
    HostFrame {
        vcpu: c % 4,
        from_tsc,
        until_tsc,
        detail: FeedDetail::ALL[d as usize % 3],
        sees_kvm: d % 5 > 0,
        is_last: d % 7 > 0,
        exits: times.at(c),
        heavy: times.at(c) / 2,
        split: ShareMap::only(Share::OF_EXITS, |share| {
            times.at(d.rotate_left(share as u32))
        }),
        lost: times.at(d) % 3,
        reasons: vec![HostReason {
            name: format!("reason:{}", a % 3).into(),
            exits: times.at(d),
            dur_ns: times.at(a),
        }],
        culprits: vec![HostCulprit {
            share: Share::ALL[b as usize % Share::ALL.len()],
            name: format!("culprit:{}", b % 3).into(),
            dur_ns: times.at(b ^ c),
        }],
    }
}

fn event(times: Times, (which, cpu, [a, b, c, d]): Words) -> Event {
    let cpu = if cpu == 255 {
        u32::MAX
    } else {
        u32::from(cpu % 3)
    };
    let (start, end) = times.span(a, b);
    let known = |word: u32| (!word.is_multiple_of(3)).then(|| times.at(word / 3));
    match which % 32 {
        0 => Event::Source(Source {
            id: SourceId(a % 5),
            name: format!("source:{}", b % 3).into(),
        }),
        1..=9 => Event::Gap(Gap {
            cpu,
            start_tsc: start,
            end_tsc: end,
            steal_ns: times.at(c),
            reloads: d % 2,
            light_exits: d / 2 % 2,
            heavy_exits: if d % 7 == 0 { u32::MAX } else { 0 },
            interference: (c % 3 > 0).then_some(c / 3 % 5),
            run_delay_ns: 0,
        }),
        10..=22 => Event::Activity(Activity {
            cpu,
            kind: ActivityKind::ALL[c as usize % 8],
            start_mono_ns: start,
            end_mono_ns: end,
            source: SourceId(if d % 11 == 0 { u32::MAX } else { d % 6 }),
            steal_ns: times.at(a ^ d),
        }),
        23..=25 => Event::Anchor(times.anchor([a, b, c, d])),
        26 => Event::HostFrame(frame(times, [a, b, c, d])),
        27 => Event::Tally(CpuTally {
            cpu,
            first_tsc: start,
            last_tsc: end,
            steal_clock_ns: known(c),
            reloads: known(d),
            interference: known(a).map(|irq| InterferenceCounts {
                irq,
                thread: times.at(b),
                ..InterferenceCounts::default()
            }),
            ..CpuTally::default()
        }),
        28 => Event::Loss(Loss {
            kind: LossKind::ALL[a as usize % 5],
            count: times.at(b),
        }),
        29 => Event::OwnCost(OwnCost {
            bpf_runs: times.at(a),
            bpf_ns: times.at(b),
        }),
        30 if d % 4 == 0 => streams::finish(),
        _ => Event::Watermark(times.at(a)),
    }
}

/// Returns the facts of a run with any set of probes, on bare metal or in a virtual machine.
fn facts(bits: u16) -> RunFacts {
    let mut facts = streams::facts();
    let bit = |n: u16| bits >> n & 1 == 1;
    facts.witnesses = Witnesses {
        irq: bit(0),
        softirq: bit(1),
        nmi: bit(2),
        sched: bit(3),
        kvm_run: bit(4),
        kvm_exit: bit(5),
        steal_clock: bit(6),
        activity_steal: bit(9),
        timer: false,
        run_delay: bit(8),
        hides_vectors: false,
    };
    facts.workload = match (bit(10), bit(11)) {
        (false, false) => MeasuringCommand::Microvm,
        (true, false) => MeasuringCommand::Osnoise,
        (_, true) => MeasuringCommand::Observed,
    };
    facts.host.apic_ids = vec![(0, 0), (1, 1), (2, 2)];
    facts.host.hypervisor = bit(7).then(|| "KVM".to_string()).map(Into::into);
    facts.options.stop_ns = bit(8).then_some(50);
    facts
}

fn stream(words: Vec<Words>, times: Times) -> Vec<Event> {
    words.into_iter().map(|words| event(times, words)).collect()
}

laws! {
    one_in(1);

    #[test]
    fn holds_for_any_stream(
        bits in any::<u16>(),
        words in prop::collection::vec(any::<Words>(), 0..16),
    ) {
        obeys_the_law(&facts(bits), &stream(words, Times { extreme: false }));
    }
}

/// The stream begins with enough exits to show KVM's usual time. Then any events follow.
#[test]
fn holds_after_a_hundred_exits() {
    let exits = prop::collection::vec((0..20_u64, 1..9_u64, 0..4_u64), 100..140);
    let words = prop::collection::vec(any::<Words>(), 8..40);
    let law = |(bits, exits, words): (u16, Vec<_>, _)| {
        let mut events = vec![streams::source(0, "source:0")];
        let mut end = 0;
        for (after, length, irq) in exits {
            let start = end + after;
            end = start + length;
            events.push(streams::activity(ActivityKind::Exit, start, end, 0));
            if irq < length {
                events.push(streams::activity(ActivityKind::Irq, start, start + irq, 0));
            }
        }
        events.extend(stream(words, Times { extreme: false }));
        obeys_the_law(&facts(bits | 1 << 5), &events);
        Ok(())
    };
    holds_for(64, (any::<u16>(), exits, words), law);
}

/// Tries fewer streams than PROPTEST_CASES, because a histogram with such long lengths is slow to
/// read in a debug build.
#[test]
fn holds_at_the_ends_of_the_clocks() {
    let streams = (
        any::<u16>(),
        prop_oneof![Just(0), Just(1_000_000_000), Just(u64::MAX)],
        prop_oneof![Just(0), Just(u64::MAX)],
        prop::collection::vec(any::<Words>(), 0..16),
    );
    let law = |(bits, tsc_hz, offset_bound_tsc, words)| {
        let mut facts = facts(bits);
        facts.clock.tsc_hz = tsc_hz;
        facts.clock.offset_bound_tsc = offset_bound_tsc;
        obeys_the_law(&facts, &stream(words, Times { extreme: true }));
        Ok(())
    };
    holds_for(64, streams, law);
}
