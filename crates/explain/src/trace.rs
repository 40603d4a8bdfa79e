//! The run line by line, as the kernel's osnoise tracer tells it: noise with net
//! durations, then the gap that it made, in the order of their ends.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use vmnoise_events::{Activity, ActivityKind};

use crate::interval::{Interval, WakeupDetail};
use crate::named::NamedPart;
use crate::names::Names;

/// A CPU whose workload shows no sign of life holds the lines of the others back for
/// this long at most; what it tells later comes late.
const PATIENCE_NS: u64 = 1_000_000_000;

/// One line of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceLine {
    /// Something took the CPU.
    Noise(Noise),
    /// The workload observed a gap.
    Sample(Sample),
    /// A periodic task was on its way.
    Context(Context),
}

/// How late a wake-up was in one context, as the kernel's timerlat tracer tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// The CPU.
    pub cpu: u32,
    /// The number of the wake-up on its CPU, from 1.
    pub number: u64,
    /// `irq`, `thread` or `user-ret`.
    pub name: &'static str,
    /// The planned expiry, CLOCK_MONOTONIC in nanoseconds.
    pub expiry_mono_ns: u64,
    /// From there on, in nanoseconds.
    pub latency_ns: u64,
}

/// One activity and what it took itself: an event of the `osnoise` group of the
/// kernel (include/trace/events/osnoise.h).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noise {
    /// The CPU.
    pub cpu: u32,
    /// What kind of work: only those that the kernel's tracer knows, and throttling,
    /// which it tells as a turn of the idle task.
    pub kind: ActivityKind,
    /// Who, as `eno1:62`, `NET_RX:3` or `comm:pid`.
    pub name: Arc<str>,
    /// Begin, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// End, CLOCK_MONOTONIC in nanoseconds.
    pub end_mono_ns: u64,
    /// Net of what preempted it and of the steal inside, in nanoseconds.
    pub net_ns: u64,
}

/// One gap, and where its time went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The CPU that observed it.
    pub cpu: u32,
    /// Begin, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// Length in nanoseconds.
    pub dur_ns: u64,
    /// How many interferences it held: the lines of noise that overlap it, and what the
    /// workload's counter saw beyond them, whose records were lost.
    pub interference: u64,
    /// When the last of them and the gap itself were over, CLOCK_MONOTONIC in ns.
    pub over_mono_ns: u64,
    /// Where it went, largest first; adds up to `dur_ns`.
    pub parts: Vec<NamedPart>,
}

impl TraceLine {
    /// The CPU of the line.
    pub fn cpu(&self) -> u32 {
        match self {
            TraceLine::Noise(noise) => noise.cpu,
            TraceLine::Sample(sample) => sample.cpu,
            TraceLine::Context(context) => context.cpu,
        }
    }

    /// The time of the line, CLOCK_MONOTONIC in nanoseconds: when it was over.
    pub fn at_mono_ns(&self) -> u64 {
        match self {
            TraceLine::Noise(noise) => noise.end_mono_ns,
            TraceLine::Sample(sample) => sample.over_mono_ns,
            TraceLine::Context(context) => {
                context.expiry_mono_ns.saturating_add(context.latency_ns)
            }
        }
    }

    /// What ends together: the inner before the outer, a sample after its noise.
    fn order(&self) -> Order {
        let (is_sample, start_mono_ns) = match self {
            TraceLine::Noise(noise) => (false, noise.start_mono_ns),
            TraceLine::Sample(sample) => (true, sample.start_mono_ns),
            TraceLine::Context(context) => (true, context.expiry_mono_ns),
        };
        (
            self.at_mono_ns(),
            is_sample,
            Reverse(start_mono_ns),
            self.cpu(),
        )
    }
}

/// When a line was over, whether it is a sample, when it began, and its CPU.
type Order = (u64, bool, Reverse<u64>, u32);

/// Puts the lines of all CPUs in one order.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// Since the last release.
    arrived: Vec<TraceLine>,
    /// Not over at the release after they came. Lines in the same place are in the order in which they came, by a
    /// number: each release looks at those that it takes alone, however many go on waiting.
    waiting: BTreeMap<(Order, u64), TraceLine>,
    numbers: u64,
    ready: Vec<TraceLine>,
}

impl Trace {
    /// Takes the net duration of an activity, if the kernel's tracer has a line for it.
    pub(crate) fn add_noise(&mut self, activity: &Activity, net_ns: u64, names: &Names) {
        if !has_line(activity.kind) {
            return;
        }
        self.arrived.push(TraceLine::Noise(Noise {
            cpu: activity.cpu,
            kind: activity.kind,
            name: names.shared(activity.source),
            start_mono_ns: activity.start_mono_ns,
            end_mono_ns: activity.end_mono_ns,
            net_ns,
        }));
    }

    /// Takes a gap and the activities that overlap it.
    pub(crate) fn add_sample(&mut self, gap: &Interval, activities: &[Activity], names: &Names) {
        let ends = activities.iter().map(|activity| activity.end_mono_ns);
        let lines = activities.iter().filter(|activity| has_line(activity.kind));
        let lost = gap.gap().and_then(|gap| gap.lost_activities);
        self.arrived.push(TraceLine::Sample(Sample {
            cpu: gap.cpu,
            start_mono_ns: gap.start_mono_ns,
            dur_ns: gap.dur_ns,
            interference: lines.count() as u64 + lost.unwrap_or(0),
            over_mono_ns: ends.fold(gap.end_mono_ns(), u64::max),
            parts: names.parts(&gap.parts),
        }));
    }

    /// Takes the contexts of a wake-up, of which this is the number on its CPU.
    pub(crate) fn add_wakeup(&mut self, interval: &Interval, wakeup: &WakeupDetail, number: u64) {
        let contexts = [
            ("irq", wakeup.irq_ns),
            ("thread", wakeup.thread_ns),
            ("user-ret", Some(interval.dur_ns)),
        ];
        for (name, latency_ns) in contexts {
            let Some(latency_ns) = latency_ns else {
                continue;
            };
            self.arrived.push(TraceLine::Context(Context {
                cpu: interval.cpu,
                number,
                name,
                expiry_mono_ns: interval.start_mono_ns,
                latency_ns,
            }));
        }
    }

    /// Releases what was over by `settled_ns`, when the last CPU showed a sign of life,
    /// or patience before `horizon_ns`.
    pub(crate) fn release(&mut self, settled_ns: u64, horizon_ns: u64) {
        let until_ns = settled_ns.max(horizon_ns.saturating_sub(PATIENCE_NS));
        let before = self.ready.len();
        while let Some(next) = self.waiting.first_entry()
            && next.get().at_mono_ns() <= until_ns
        {
            self.ready.push(next.remove());
        }
        for line in self.arrived.drain(..) {
            if line.at_mono_ns() <= until_ns {
                self.ready.push(line);
            } else {
                self.numbers += 1;
                self.waiting.insert((line.order(), self.numbers), line);
            }
        }
        self.ready[before..].sort_by_key(TraceLine::order);
    }

    /// The lines released since the last call.
    pub(crate) fn take(&mut self) -> Vec<TraceLine> {
        std::mem::take(&mut self.ready)
    }

    /// Whether there are any.
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }
}

/// Whether the kernel's tracer has a line for it; it stops with the kernel alone, and we do not.
pub(crate) fn has_line(kind: ActivityKind) -> bool {
    match kind {
        ActivityKind::Nmi
        | ActivityKind::Irq
        | ActivityKind::Softirq
        | ActivityKind::Thread
        | ActivityKind::Throttled
        | ActivityKind::Stopped => true,
        ActivityKind::Blocked | ActivityKind::Vmm | ActivityKind::Exit => false,
    }
}
