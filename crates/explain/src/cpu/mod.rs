//! One measured CPU: events that wait for an explanation, and sums of the events that are
//! explained.

mod figures;
mod gaps;
mod stops;
mod wakeups;

use vmnoise_events::{
    Activation, Activity, ActivityKind, CpuTally, Gap, InterferenceCounts, MeasuringCommand,
    RunFacts,
};

use self::stops::Stops;
use crate::attribute::{Attribution, Explained};
use crate::clockmap::ClockMap;
use crate::derive::Derivation;
use crate::feed::HostLine;
use crate::guest_columns::ExitCounts;
use crate::horizon::Horizon;
use crate::host_exits::{HostExit, HostExits};
use crate::kvm_bound::KvmBound;
use crate::ledger::Ledger;
use crate::names::Names;
use crate::net_noise::NetNoise;
use crate::posted::Posted;
use crate::stream_gaps::StreamGaps;
use crate::timeline::Timeline;
use crate::trace::Trace;
use crate::visibility::{HostCoverage, Visibility};
use crate::waiting::{Lasting, Waiting};
use crate::wakeups::{Room, WakeupLedger};

/// State that all CPUs share while they advance.
pub(crate) struct Shared<'a> {
    pub(crate) clock: &'a ClockMap,
    pub(crate) visibility: &'a Visibility,
    pub(crate) names: &'a Names,
    pub(crate) attribution: &'a mut Attribution,
    pub(crate) threshold_ns: u64,
    /// Times at which records of the stream may be missing.
    pub(crate) stream_gaps: &'a StreamGaps,
    /// Function that returns the host's coverage of this CPU between two instants (CLOCK_MONOTONIC,
    /// ns).
    pub(crate) host_coverage: &'a dyn Fn(u32, u64, u64) -> HostCoverage,
    /// Receiver of all trace lines; `None` if no trace was requested.
    pub(crate) trace: Option<&'a mut Trace>,
    /// Period of periodic tasks, in nanoseconds; 0 for other workloads.
    pub(crate) timer_period_ns: u64,
    /// Time left for all further gaps and wake-ups of the run, in nanoseconds. This limit keeps
    /// every sum within a u64 (584 years). Only a damaged stream exceeds the limit.
    pub(crate) room_ns: &'a mut u64,
    /// Memory left for the waits that would have followed a late task.
    pub(crate) waits_room: &'a mut Room,
}

#[derive(Debug)]
pub(crate) struct Cpu {
    pub(crate) number: u32,
    waiting: Waiting<Gap>,
    /// Wake-ups that are not final yet.
    waking: Waiting<Activation>,
    timeline: Timeline,
    host_exits: HostExits,
    derivation: Derivation,
    /// Net durations of activities for the trace; `None` if no trace was requested.
    net_noise: Option<NetNoise>,
    kvm_bound: KvmBound,
    posted: Posted,
    pub(crate) ledger: Ledger,
    /// Sums of wake-ups; `None` for workloads other than periodic tasks.
    pub(crate) wakeups: Option<WakeupLedger>,
    pub(crate) tally: Option<CpuTally>,
    /// Frames of the host's feed about this CPU.
    pub(crate) host: HostLine,
    /// Numbers of exits at the end of the last period.
    period_exits: ExitCounts,
    /// Runtime at the end of the last period, in nanoseconds.
    period_runtime_ns: u64,
    /// Numbers of interferences at the end of the last period.
    period_counts: InterferenceCounts,
    /// Start of the workload by its first tally, in nanoseconds of CLOCK_MONOTONIC; `None` until a
    /// clock dates it.
    pub(crate) started_mono_ns: Option<u64>,
    /// Last reading of the workload before the last watermark.
    alive_tsc: Option<u64>,
    pub(crate) stops: Stops,
    /// Whether this CPU needs another pass, because an event arrived or still waits.
    pub(crate) is_busy: bool,
    /// Whether any event of this CPU arrived since its last period.
    pub(crate) is_heard: bool,
    /// Time that [`Self::advance`] returned in the last pass.
    pub(crate) settled_ns: u64,
    /// Number of gaps that arrived after their activities had been forgotten.
    pub(crate) late_gaps: u64,
    /// Number of gaps during which a clock jumped, so that their times and lengths are unknown.
    pub(crate) undated_gaps: u64,
    /// Number of gaps that no clock can hold, and of wake-ups whose corrected waits do not fit.
    impossible_gaps: u64,
}

impl Cpu {
    pub(crate) fn new(number: u32, traced: bool) -> Self {
        Self {
            number,
            waiting: Waiting::default(),
            waking: Waiting::default(),
            timeline: Timeline::default(),
            host_exits: HostExits::default(),
            derivation: Derivation::default(),
            net_noise: traced.then(NetNoise::default),
            kvm_bound: KvmBound::default(),
            posted: Posted::default(),
            ledger: Ledger::new(),
            wakeups: None,
            tally: None,
            host: HostLine::default(),
            period_exits: ExitCounts::default(),
            period_runtime_ns: 0,
            period_counts: InterferenceCounts::default(),
            started_mono_ns: None,
            alive_tsc: None,
            stops: Stops::default(),
            is_busy: true,
            is_heard: false,
            settled_ns: 0,
            late_gaps: 0,
            undated_gaps: 0,
            impossible_gaps: 0,
        }
    }

    /// Returns whether this CPU has any figures.
    fn was_measured(&self) -> bool {
        self.tally.is_some() || self.ledger.run.gaps > 0 || self.wakeups.is_some()
    }

    /// Returns whether results list this CPU. An observed thread may use many CPUs but uses few, so
    /// unused ones are left out.
    pub(crate) fn belongs_to_result(&self, facts: &RunFacts) -> bool {
        let was_asked_for = facts.options.cpus.binary_search(&self.number).is_ok();
        self.was_measured() || (was_asked_for && facts.workload != MeasuringCommand::Observed)
    }

    /// Returns the number of impossible records of this CPU.
    pub(crate) fn impossible(&self) -> u64 {
        // A trace examines the same activities again.
        let traced = self.net_noise.as_ref().map_or(0, NetNoise::crowded);
        let crowded = self.timeline.crowded().max(traced);
        self.impossible_gaps.saturating_add(crowded)
    }

    pub(crate) fn add_gap(&mut self, gap: Gap) {
        if gap.end_tsc < gap.start_tsc {
            self.impossible_gaps += 1;
        } else {
            self.waiting.push(gap);
        }
    }

    pub(crate) fn add_activation(&mut self, activation: Activation) {
        if activation.woke_mono_ns < activation.expiry_mono_ns {
            self.impossible_gaps += 1;
        } else {
            self.waking.push(activation);
        }
    }

    /// Forgets the gaps and wake-ups that ended after the last anchor. `last_ns` is CLOCK_MONOTONIC
    /// at this anchor.
    pub(crate) fn forget_undated(&mut self, clock: &ClockMap, last_ns: u64) {
        let last_tsc = clock.span_tsc().map_or(0, |(_, last_tsc)| last_tsc);
        self.waiting.forget_after(last_tsc);
        self.waking.forget_after(last_ns);
    }

    pub(crate) fn add_activity(&mut self, activity: Activity) {
        if activity.kind == ActivityKind::Stopped {
            self.stops.take_off(&activity);
        }
        self.timeline.push(activity);
        if let Some(net_noise) = &mut self.net_noise {
            net_noise.push(activity);
        }
    }

    /// Sets the error bound of the times of host exits.
    pub(crate) fn bind_host_exits(&mut self, bound_ns: u64) {
        self.host_exits.bind(bound_ns);
    }

    pub(crate) fn add_host_exit(&mut self, exit: HostExit) {
        self.host_exits.push(exit);
    }

    /// Returns whether all gaps that may contain this activity are already explained.
    pub(crate) fn has_forgotten(&self, activity: &Activity) -> bool {
        self.timeline.has_forgotten(activity.end_mono_ns)
    }

    /// Replaces the previous tally, because its counters are cumulative. The first reading stays
    /// that of the first tally.
    pub(crate) fn add_tally(&mut self, tally: CpuTally) {
        let first_tsc = self
            .tally
            .map_or(tally.first_tsc, |earlier| earlier.first_tsc);
        self.tally = Some(CpuTally { first_tsc, ..tally });
        if let Some(reading) = tally.posted {
            self.posted.see(reading);
        }
    }

    /// Explains every gap and wake-up that ended by `horizon` at a final time, ordered by start.
    /// Returns the last time at which the workload is known to have had this CPU, in nanoseconds of
    /// CLOCK_MONOTONIC.
    pub(crate) fn advance(
        &mut self,
        horizon: Horizon,
        shared: &mut Shared<'_>,
        on_interval: &mut dyn FnMut(&Explained<'_>),
    ) -> u64 {
        let clock = shared.clock;
        if let Some(tally) = self.tally
            && self.started_mono_ns.is_none()
            && horizon.dates(tally.first_tsc, clock)
        {
            self.started_mono_ns = Some(clock.mono_ns(tally.first_tsc));
        }
        self.timeline.begin_pass(horizon.mono_ns());
        let settled_ns = if shared.visibility.is_observed() {
            self.explain_derived(horizon, shared, on_interval)
        } else if shared.visibility.is_timer() {
            self.explain_wakeups(horizon, shared, on_interval)
        } else {
            self.explain_polled(horizon, shared, on_interval)
        };
        let settled_ns = settled_ns.min(horizon.mono_ns());
        self.kvm_bound
            .observe(self.timeline.activities(), settled_ns, shared.names);
        self.timeline.end_pass(settled_ns);
        let certain_to_ns = match horizon {
            Horizon::End => u64::MAX,
            // A stop after the last reading may lie before the next reading.
            Horizon::To(_) => settled_ns.min(self.window(clock).1),
        };
        self.stops.settle(certain_to_ns, self.window(clock));
        self.host_exits.settle(settled_ns);
        self.settle_host(horizon, settled_ns, shared);
        self.trace_noise(horizon, settled_ns, shared);
        self.is_busy = !self.is_settled(clock);
        self.alive_tsc = self.tally.map(|tally| tally.last_tsc);
        settled_ns
    }

    /// Returns whether another pass would change nothing, as long as no new event arrives.
    fn is_settled(&self, clock: &ClockMap) -> bool {
        let nothing_waits =
            self.waiting.is_empty() && self.waking.is_empty() && !self.host.has_feed();
        let was_alive = self.tally.is_none_or(|tally| {
            let was_there = self.alive_tsc == Some(tally.last_tsc);
            was_there && clock.covers(tally.last_tsc) && self.started_mono_ns.is_some()
        });
        let traces_more = self.net_noise.as_ref().is_some_and(|it| !it.is_empty());
        nothing_waits && was_alive && self.timeline.is_empty() && !traces_more
    }

    fn trace_noise(&mut self, horizon: Horizon, settled_ns: u64, shared: &mut Shared<'_>) {
        let Shared {
            visibility,
            names,
            trace,
            ..
        } = shared;
        if let (Some(net_noise), Some(trace)) = (&mut self.net_noise, trace) {
            let with_steal = visibility.has_activity_steal();
            net_noise.report(horizon.mono_ns(), with_steal, &mut |activity, net_ns| {
                trace.add_noise(activity, net_ns, names);
            });
            net_noise.forget(settled_ns);
        }
    }

    /// Settles the reports of the host's feed. Does nothing for observed threads and periodic
    /// tasks, which observe no time below their kernel.
    fn settle_host(&mut self, horizon: Horizon, settled_ns: u64, shared: &Shared<'_>) {
        let observes_no_gaps = shared.visibility.is_observed() || shared.visibility.is_timer();
        if observes_no_gaps || !self.host.has_feed() {
            return;
        }
        self.host.settle(match horizon {
            Horizon::End => u64::MAX,
            Horizon::To(_) => shared.clock.tsc(settled_ns),
        });
    }

    /// Returns the time before which no later gap starts: the workload read its clock then, and all
    /// its gaps have been drained since.
    fn alive_mono_ns(&self, clock: &ClockMap) -> u64 {
        match self.alive_tsc {
            Some(tsc) if clock.covers(tsc) => clock.mono_ns(tsc),
            _ => 0,
        }
    }

    /// Returns the end times of the gaps and wake-ups that `horizon` would explain, CLOCK_MONOTONIC
    /// in nanoseconds.
    pub(crate) fn due_ends(&self, horizon: Horizon, clock: &ClockMap) -> impl Iterator<Item = u64> {
        let gaps = self.waiting.due(move |tsc| dated(tsc, horizon, clock));
        gaps.chain(self.waking.due(move |ns| horizon.holds(ns)))
    }
}

/// Returns the time of this TSC reading, CLOCK_MONOTONIC in nanoseconds, if it is final.
fn dated(tsc: u64, horizon: Horizon, clock: &ClockMap) -> Option<u64> {
    let is_final = horizon.dates(tsc, clock);
    is_final
        .then(|| clock.mono_ns(tsc))
        .and_then(|ns| horizon.holds(ns))
}

impl Lasting for Gap {
    fn begin(&self) -> u64 {
        self.start_tsc
    }

    fn end(&self) -> u64 {
        self.end_tsc
    }
}

impl Lasting for Activation {
    fn begin(&self) -> u64 {
        self.expiry_mono_ns
    }

    fn end(&self) -> u64 {
        self.woke_mono_ns
    }
}

/// Returns the exits of this CPU's vCPU that overlap this time, and the host's coverage of this
/// time.
fn host_exits_of<'a>(
    exits: &'a mut HostExits,
    cpu: u32,
    (start_ns, end_ns): (u64, u64),
    shared: &Shared<'_>,
) -> (&'a mut [HostExit], HostCoverage) {
    if !shared.visibility.is_joined() {
        return (&mut [], HostCoverage::None);
    }
    let host_coverage = match exits.has_forgotten(start_ns) {
        true => HostCoverage::None,
        false => match (shared.host_coverage)(cpu, start_ns, end_ns) {
            HostCoverage::Host { is_whole } => HostCoverage::Host {
                is_whole: is_whole && shared.stream_gaps.is_past(start_ns),
            },
            HostCoverage::None => HostCoverage::None,
        },
    };
    (exits.overlapping(start_ns, end_ns), host_coverage)
}
