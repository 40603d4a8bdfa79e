//! Figures of one CPU, since the start and since the last period.

use vmnoise_events::InterferenceCounts;

use super::Cpu;
use crate::clockmap::ClockMap;
use crate::guest_columns::{ExitCounts, GuestColumns};
use crate::ledger::PeriodLine;
use crate::visibility::Visibility;

impl Cpu {
    /// Returns the numbers of exits since the start; `None` without a tally.
    pub(crate) fn exits(&self) -> Option<ExitCounts> {
        self.tally.as_ref().map(ExitCounts::of)
    }

    /// Returns the workload's counters of interferences since the start; `None` without counters.
    pub(crate) fn interference_counts(&self) -> Option<InterferenceCounts> {
        self.tally.and_then(|tally| tally.interference)
    }

    /// Returns the figures since the last call.
    pub(crate) fn take_period(&mut self, visibility: &Visibility, clock: &ClockMap) -> PeriodLine {
        self.is_heard = false;
        let runtime_ns = self.runtime_ns(visibility, clock);
        let of_period_ns = runtime_ns.map(|ns| ns.saturating_sub(self.period_runtime_ns));
        self.period_runtime_ns = runtime_ns.unwrap_or(0).max(self.period_runtime_ns);
        let exits = self.exits();
        let of_period = exits.map(|exits| exits.since(self.period_exits));
        self.period_exits = exits.unwrap_or_default();
        let counts = self.interference_counts();
        let counted = counts.map(|counts| counts.since(self.period_counts));
        self.period_counts = counts.unwrap_or(self.period_counts);
        let line =
            self.ledger
                .take_period(self.number, visibility, of_period_ns, of_period, counted);
        let host = self.host.take_period(clock);
        PeriodLine {
            guest_columns: match self.host.has_feed() {
                true => line.guest_columns.reported_by_host(host.as_ref()),
                false => line.guest_columns,
            },
            columns_so_far: self.columns_so_far(visibility, clock),
            host,
            ..line
        }
    }

    /// Returns the columns of a guest over the run so far.
    pub(crate) fn columns_so_far(&self, visibility: &Visibility, clock: &ClockMap) -> GuestColumns {
        let columns = self.ledger.run.guest_columns(visibility, self.exits());
        match self.host.has_feed() {
            true => columns.reported_by_host(self.host.so_far(clock).as_ref()),
            false => columns,
        }
    }

    /// Returns the window from the workload's first to its last reading, in nanoseconds of
    /// CLOCK_MONOTONIC. Without a tally, the window contains all time.
    pub(super) fn window(&self, clock: &ClockMap) -> (u64, u64) {
        let started_ns = self.started_mono_ns.unwrap_or(0);
        let last_ns = self.tally.map(|tally| clock.mono_ns(tally.last_tsc));
        (started_ns, last_ns.unwrap_or(u64::MAX))
    }

    /// Returns [`Self::window`], or `None` if the workload never reported, or if no clock dates its
    /// first reading.
    pub(crate) fn measured_ns(&self, clock: &ClockMap) -> Option<(u64, u64)> {
        (self.tally.is_some() && self.started_mono_ns.is_some()).then(|| self.window(clock))
    }

    /// Returns how long the workload was stopped, in nanoseconds; `None` if no probe could see a
    /// stop.
    pub(crate) fn not_measured_ns(&self, visibility: &Visibility, clock: &ClockMap) -> Option<u64> {
        let is_reported = visibility.witnesses().sched && !visibility.is_observed();
        let ns = self.stops.not_measured_ns(self.window(clock));
        (is_reported || ns > 0).then_some(ns)
    }

    /// Returns the runtime of the workload, in nanoseconds; `None` without a tally. If gaps are
    /// stamped with the TSC, the runtime excludes the time around clock jumps, because gaps in this
    /// time are excluded too.
    pub(crate) fn runtime_ns(&self, visibility: &Visibility, clock: &ClockMap) -> Option<u64> {
        let tally = self.tally?;
        let span_ns = clock
            .mono_ns(tally.last_tsc)
            .saturating_sub(self.started_mono_ns?);
        let blind_ns = clock.whole_ns(tally.blind_tsc.unwrap_or(0));
        // A stop in blind time is subtracted only once. A stop whose gap was lost is not in blind
        // time.
        let twice_ns = self.stops.blind_ns().min(blind_ns);
        let stopped_ns = self.stops.inside_ns(self.window(clock));
        let jumped_ns = match visibility.dates_by_tsc() {
            true => clock.jumped_ns(self.window(clock)),
            false => 0,
        };
        let off_ns = (blind_ns - twice_ns)
            .saturating_add(stopped_ns)
            .saturating_add(jumped_ns);
        Some(span_ns.saturating_sub(off_ns))
    }
}
