//! Figures of runs that can be compared.

use std::borrow::Cow;

use vmnoise_events::{MeasuringCommand, Name, Share};

use super::sample::Window;

/// Kind of data in recordings that can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordingKind {
    /// Gaps of polling threads, microVMs or observed threads.
    Gaps,
    /// Wake-ups of periodic tasks.
    Wakeups,
    /// Exits of vCPUs.
    Exits,
}

impl RecordingKind {
    /// All kinds.
    pub const ALL: [RecordingKind; 3] = [
        RecordingKind::Gaps,
        RecordingKind::Wakeups,
        RecordingKind::Exits,
    ];

    /// Returns the kind of data in recordings of this workload.
    pub const fn of(workload: MeasuringCommand) -> RecordingKind {
        match workload {
            MeasuringCommand::Timerlat => RecordingKind::Wakeups,
            MeasuringCommand::Exits => RecordingKind::Exits,
            MeasuringCommand::Microvm | MeasuringCommand::Osnoise | MeasuringCommand::Observed => {
                RecordingKind::Gaps
            }
        }
    }

    /// Returns the shortest possible length of a window, in nanoseconds.
    pub const fn shortest_window_ns(self) -> u64 {
        match self {
            RecordingKind::Gaps | RecordingKind::Wakeups => 1,
            // The kernel's counts are read once a second.
            RecordingKind::Exits => 1_000_000_000,
        }
    }

    /// Returns the name of the kind in results.
    pub const fn name(self) -> &'static str {
        match self {
            RecordingKind::Gaps => "gaps",
            RecordingKind::Wakeups => "wakeups",
            RecordingKind::Exits => "exits",
        }
    }
}

/// Figure of a run, or of one window of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ComparedFigure {
    /// Sum of the lengths of all gaps, in percent of the runtime. For exits: sum of their lengths,
    /// without the sleep that the guest asked for.
    Noise,
    /// Number of gaps, per second of the runtime.
    Gaps,
    /// Length, in nanoseconds, that this number of every 10,000 gaps does not exceed: 9,990 for
    /// p99.9.
    Percentile(u16),
    /// Time of this share, in percent of the runtime.
    Share(Share),
    /// Latency from the planned expiry to this point, in nanoseconds, that this number of every
    /// 10,000 wake-ups does not exceed.
    Latency(LatencyContext, u16),
    /// Number of expiries that passed before the task could wait for them, per second of the
    /// runtime.
    Missed,
    /// Average time that one share took in a wake-up, in nanoseconds.
    Delay(Share),
    /// Number of exits, per second of the vCPUs' time.
    Exits,
    /// Figure of the exits for the reason with this name.
    Reason(Name, OfReason),
}

/// Point at which a latency ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatencyContext {
    /// The timer's interrupt arrived.
    Irq,
    /// The scheduler switched to the task.
    Thread,
    /// The task continued in user space.
    User,
}

/// Figure that is computed from the exits for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfReason {
    /// Number of exits, per second of the vCPUs' time.
    Exits,
    /// Time of these exits, in percent of the vCPUs' time.
    Time,
    /// Length, in nanoseconds, that 99 % of these exits do not exceed. The error is at most a
    /// quarter of a power of two.
    P99,
    /// Longest exit, in nanoseconds.
    Max,
}

/// Unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Percent.
    Percent,
    /// Occurrences per second.
    PerSecond,
    /// Nanoseconds.
    Nanoseconds,
}

const PERCENTILES: [(u16, &str); 5] = [
    (5_000, "p50"),
    (9_000, "p90"),
    (9_900, "p99"),
    (9_990, "p99.9"),
    (10_000, "max"),
];

impl LatencyContext {
    const ALL: [LatencyContext; 3] = [
        LatencyContext::Irq,
        LatencyContext::Thread,
        LatencyContext::User,
    ];

    const fn name(self) -> &'static str {
        match self {
            LatencyContext::Irq => "irq",
            LatencyContext::Thread => "thread",
            LatencyContext::User => "user",
        }
    }
}

impl OfReason {
    /// All kinds, in the order of results.
    pub const ALL: [OfReason; 4] = [
        OfReason::Exits,
        OfReason::Time,
        OfReason::P99,
        OfReason::Max,
    ];

    /// Returns the word after the reason's name in the name of a figure.
    pub const fn name(self) -> &'static str {
        match self {
            OfReason::Exits => "exits",
            OfReason::Time => "time",
            OfReason::P99 => "p99",
            OfReason::Max => "max",
        }
    }
}

impl ComparedFigure {
    /// Returns the figures that every recording of this kind has, in the order of results.
    /// Recordings of exits also have the figures of each exit reason.
    pub fn all(kind: RecordingKind) -> Vec<ComparedFigure> {
        let ranks = || PERCENTILES.into_iter().map(|(rank, _)| rank);
        match kind {
            RecordingKind::Gaps => [ComparedFigure::Noise, ComparedFigure::Gaps]
                .into_iter()
                .chain(ranks().map(ComparedFigure::Percentile))
                .chain(Share::ALL.map(ComparedFigure::Share))
                .collect(),
            RecordingKind::Wakeups => {
                let contexts = LatencyContext::ALL.into_iter();
                let latencies = contexts.flat_map(|context| {
                    ranks().map(move |rank| ComparedFigure::Latency(context, rank))
                });
                latencies
                    .chain([ComparedFigure::Missed])
                    .chain(Share::ALL.map(ComparedFigure::Delay))
                    .collect()
            }
            RecordingKind::Exits => [ComparedFigure::Noise, ComparedFigure::Exits]
                .into_iter()
                .chain(Share::OF_EXITS.map(ComparedFigure::Share))
                .chain([ComparedFigure::Share(Share::Unexplained)])
                .collect(),
        }
    }

    /// Returns the figures of the exits for this reason.
    pub fn of_reason(reason: &Name) -> [ComparedFigure; 4] {
        OfReason::ALL.map(|what| ComparedFigure::Reason(reason.clone(), what))
    }

    /// Returns the figure's name in results and conditions: `noise`, `p99.9`, `irq.max`, the name
    /// of a share, `by.` and the name of a share, or the name of a reason and `.p99`.
    pub fn name(&self) -> Cow<'_, str> {
        let of = |rank: u16| {
            let mut known = PERCENTILES.iter();
            let found = known.find(|(known, _)| *known == rank);
            found.map_or("percentile", |(_, name)| name)
        };
        match self {
            ComparedFigure::Noise => "noise".into(),
            ComparedFigure::Gaps => "gaps".into(),
            ComparedFigure::Missed => "missed".into(),
            ComparedFigure::Exits => "exits".into(),
            ComparedFigure::Share(share) => share.name().into(),
            ComparedFigure::Percentile(rank) => of(*rank).into(),
            ComparedFigure::Latency(context, rank) => {
                format!("{}.{}", context.name(), of(*rank)).into()
            }
            ComparedFigure::Delay(share) => format!("by.{}", share.name()).into(),
            ComparedFigure::Reason(reason, what) => {
                format!("{}.{}", reason.as_str(), what.name()).into()
            }
        }
    }

    /// Returns the unit of the figure.
    pub const fn unit(&self) -> Unit {
        match self {
            ComparedFigure::Noise
            | ComparedFigure::Share(_)
            | ComparedFigure::Reason(_, OfReason::Time) => Unit::Percent,
            ComparedFigure::Gaps
            | ComparedFigure::Missed
            | ComparedFigure::Exits
            | ComparedFigure::Reason(_, OfReason::Exits) => Unit::PerSecond,
            ComparedFigure::Percentile(_)
            | ComparedFigure::Latency(..)
            | ComparedFigure::Delay(_)
            | ComparedFigure::Reason(_, OfReason::P99 | OfReason::Max) => Unit::Nanoseconds,
        }
    }

    /// Returns the figure of a window of measured CPUs, in the figure's [`Unit`]; `None` if
    /// unknown. Without gaps, a length is 0, which is shorter than any gap.
    pub fn of(&self, window: &Window) -> Option<f64> {
        let runtime_ns = window.runtime_ns;
        let of_runtime = |ns: u64| {
            let is_part = runtime_ns > 0 && ns <= runtime_ns;
            is_part.then(|| ns as f64 * 100.0 / runtime_ns as f64)
        };
        let per_second =
            |count: u64| (runtime_ns > 0).then(|| count as f64 * 1e9 / runtime_ns as f64);
        match self {
            ComparedFigure::Noise => of_runtime(window.noise_ns),
            ComparedFigure::Gaps => per_second(window.lengths.count()),
            ComparedFigure::Percentile(rank) => Some(window.length_at(*rank).unwrap_or(0) as f64),
            ComparedFigure::Share(share) => window.share_ns(*share).and_then(of_runtime),
            ComparedFigure::Latency(context, rank) => {
                let latency_ns = match context {
                    LatencyContext::Irq => window.irq.length_at(*rank),
                    LatencyContext::Thread => window.thread.length_at(*rank),
                    LatencyContext::User => window.length_at(*rank),
                };
                latency_ns.map(|ns| ns as f64)
            }
            ComparedFigure::Missed => per_second(window.missed),
            ComparedFigure::Delay(share) => {
                let ns = window.share_ns(*share)?;
                let count = window.lengths.count();
                (count > 0).then(|| ns as f64 / count as f64)
            }
            ComparedFigure::Exits | ComparedFigure::Reason(..) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_figures_of_a_kind_share_a_name() {
        for kind in RecordingKind::ALL {
            let figures = ComparedFigure::all(kind);
            let of_io = ComparedFigure::of_reason(&"io".into());
            let all = figures.iter().chain(&of_io);
            let names: BTreeSet<_> = all.clone().map(ComparedFigure::name).collect();
            assert_eq!(names.len(), all.count(), "{names:?}");
        }
        assert_eq!(
            ComparedFigure::Latency(LatencyContext::Irq, 9_990).name(),
            "irq.p99.9"
        );
        assert_eq!(
            ComparedFigure::Delay(Share::Preempted).name(),
            "by.preempted"
        );
        assert_eq!(ComparedFigure::of_reason(&"io".into())[2].name(), "io.p99");
    }
}
