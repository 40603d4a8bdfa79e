//! Prints the run line by line, as the kernel's osnoise tracer does. Each activity has a line with
//! its net duration. The line of the gap that the activities caused follows. Lines are ordered by
//! end.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use vmnoise_events::{Activity, ActivityKind};

use crate::interval::{Interval, WakeupDetail};
use crate::named::NamedPart;
use crate::names::Names;

/// Maximum time for which a silent CPU delays the lines of the other CPUs. The lines of the silent
/// CPU itself then come late.
const PATIENCE_NS: u64 = 1_000_000_000;

/// One line of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceLine {
    /// An activity took the CPU.
    Noise(TraceNoise),
    /// The workload observed a gap.
    Sample(TraceSample),
    /// A periodic task reached one context of its wake-up.
    Context(TraceContext),
}

/// Latency of a wake-up in one context, as the kernel's timerlat tracer prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// The CPU.
    pub cpu: u32,
    /// Number of the wake-up on its CPU; the first wake-up has number 1.
    pub number: u64,
    /// Name of the context: `irq`, `thread` or `user-ret`.
    pub name: &'static str,
    /// Planned expiry, CLOCK_MONOTONIC in nanoseconds.
    pub expiry_mono_ns: u64,
    /// Time since the expiry, in nanoseconds.
    pub latency_ns: u64,
}

/// One activity with its own net time: an event of the kernel's `osnoise` group
/// (include/trace/events/osnoise.h).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceNoise {
    /// The CPU.
    pub cpu: u32,
    /// Kind of work. Kinds that the kernel's tracer does not know have no line, except for
    /// throttling and stops of the workload. The kernel's tracer prints throttling as a run of the
    /// idle task.
    pub kind: ActivityKind,
    /// Name, such as `eno1:62`, `NET_RX:3` or `comm:pid`.
    pub name: Arc<str>,
    /// Start, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// End, CLOCK_MONOTONIC in nanoseconds.
    pub end_mono_ns: u64,
    /// Net time in nanoseconds: the duration without the activities nested in this one, and without
    /// the steal inside.
    pub net_ns: u64,
}

/// One gap with its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceSample {
    /// CPU that observed the gap.
    pub cpu: u32,
    /// Start, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// Length in nanoseconds.
    pub dur_ns: u64,
    /// Number of interferences in the gap. These are the lines of noise that overlap the gap, and
    /// the interferences that only the workload's counter shows because their records were lost.
    pub interference: u64,
    /// End of the gap or of its last interference, whichever is later, CLOCK_MONOTONIC in ns.
    pub over_mono_ns: u64,
    /// Parts, largest first; they add up to `dur_ns`.
    pub parts: Vec<NamedPart>,
}

impl TraceLine {
    /// Returns the CPU of the line.
    pub fn cpu(&self) -> u32 {
        match self {
            TraceLine::Noise(noise) => noise.cpu,
            TraceLine::Sample(sample) => sample.cpu,
            TraceLine::Context(context) => context.cpu,
        }
    }

    /// Returns the time of the line, CLOCK_MONOTONIC in nanoseconds: the end of its interval.
    pub fn at_mono_ns(&self) -> u64 {
        match self {
            TraceLine::Noise(noise) => noise.end_mono_ns,
            TraceLine::Sample(sample) => sample.over_mono_ns,
            TraceLine::Context(context) => {
                context.expiry_mono_ns.saturating_add(context.latency_ns)
            }
        }
    }

    /// Returns the sort key. Of lines that end together, an inner activity comes before an outer
    /// activity, and a gap comes after its activities.
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

/// Sort key of a line: its end, whether it is a gap or a wake-up, its start, and its CPU.
type Order = (u64, bool, Reverse<u64>, u32);

/// Sorter of the lines of all CPUs.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// Lines since the last release.
    arrived: Vec<TraceLine>,
    /// Lines that had not ended at the last release. A number keeps lines with equal keys in the
    /// order of arrival. Each release visits only the lines that it takes, not the lines that
    /// continue to wait.
    waiting: BTreeMap<(Order, u64), TraceLine>,
    numbers: u64,
    ready: Vec<TraceLine>,
}

impl Trace {
    /// Adds a line with the net duration of an activity, if the kernel's tracer has a line for its
    /// kind.
    pub(crate) fn add_noise(&mut self, activity: &Activity, net_ns: u64, names: &Names) {
        if !has_line(activity.kind) {
            return;
        }
        self.arrived.push(TraceLine::Noise(TraceNoise {
            cpu: activity.cpu,
            kind: activity.kind,
            name: names.shared(activity.source),
            start_mono_ns: activity.start_mono_ns,
            end_mono_ns: activity.end_mono_ns,
            net_ns,
        }));
    }

    /// Adds a gap, with the activities that overlap it.
    pub(crate) fn add_sample(&mut self, gap: &Interval, activities: &[Activity], names: &Names) {
        let ends = activities.iter().map(|activity| activity.end_mono_ns);
        let lines = activities.iter().filter(|activity| has_line(activity.kind));
        let lost = gap.gap().and_then(|gap| gap.lost_activities);
        self.arrived.push(TraceLine::Sample(TraceSample {
            cpu: gap.cpu,
            start_mono_ns: gap.start_mono_ns,
            dur_ns: gap.dur_ns,
            interference: lines.count() as u64 + lost.unwrap_or(0),
            over_mono_ns: ends.fold(gap.end_mono_ns(), u64::max),
            parts: names.parts(&gap.parts),
        }));
    }

    /// Adds a line for each context of a wake-up. `number` is the number of the wake-up on its CPU.
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
            self.arrived.push(TraceLine::Context(TraceContext {
                cpu: interval.cpu,
                number,
                name,
                expiry_mono_ns: interval.start_mono_ns,
                latency_ns,
            }));
        }
    }

    /// Releases the lines that ended by `settled_ns`, the time up to which even the slowest CPU has
    /// settled. Lines that ended [`PATIENCE_NS`] before `horizon_ns` are released in any case.
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

    /// Returns the lines released since the last call.
    pub(crate) fn take(&mut self) -> Vec<TraceLine> {
        std::mem::take(&mut self.ready)
    }

    /// Returns whether any lines are released.
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }
}

/// Returns whether activities of this kind have a line. These are the kinds of the kernel's tracer,
/// and `Stopped`, because vmnoise's workload can be stopped while the kernel runs.
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
