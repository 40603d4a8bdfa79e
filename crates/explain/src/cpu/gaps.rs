//! Gaps of one CPU: observed by its workload, or derived from its activities.

use vmnoise_events::Gap;

use super::stops::stopped_ns;
use super::{Cpu, Shared, dated, host_exits_of};
use crate::attribute::{Context, Explained};
use crate::feed::BareGap;
use crate::horizon::Horizon;
use crate::host_exits::HostExit;
use crate::interval::Detail;
use crate::visibility::HostCoverage;

impl Cpu {
    /// Explains gaps that the workload observed. Returns the time before which no later gap starts.
    pub(super) fn explain_polled(
        &mut self,
        horizon: Horizon,
        shared: &mut Shared<'_>,
        on_interval: &mut dyn FnMut(&Explained<'_>),
    ) -> u64 {
        let clock = shared.clock;
        let mut settled_ns = self.alive_mono_ns(clock);
        for (gap, end_ns) in self.waiting.take(|tsc| dated(tsc, horizon, clock)) {
            if clock.jumped_between(gap.start_tsc, gap.end_tsc) {
                self.undated_gaps += 1;
                settled_ns = settled_ns.max(end_ns);
                continue;
            }
            let start_ns = clock.mono_ns(gap.start_tsc);
            if self.explain(&gap, start_ns, end_ns, shared, on_interval) {
                settled_ns = settled_ns.max(end_ns);
            }
        }
        if let Some(begin_tsc) = self.waiting.first_begin() {
            settled_ns = settled_ns.min(clock.mono_ns(begin_tsc));
        }
        settled_ns
    }

    /// Explains gaps that are derived from activities. Returns the time before which no later gap
    /// starts. All activities before the tally's last reading have arrived.
    pub(super) fn explain_derived(
        &mut self,
        horizon: Horizon,
        shared: &mut Shared<'_>,
        on_interval: &mut dyn FnMut(&Explained<'_>),
    ) -> u64 {
        let clock = shared.clock;
        let reported_ns = self.tally.map_or(0, |tally| clock.mono_ns(tally.last_tsc));
        let (certain_to_ns, started_ns) = match (horizon, self.started_mono_ns) {
            (Horizon::End, started_ns) => (u64::MAX, started_ns.unwrap_or(0)),
            (Horizon::To(horizon_ns), Some(started_ns)) => {
                (horizon_ns.min(reported_ns), started_ns)
            }
            (Horizon::To(_), None) => return 0,
        };
        let gaps = self
            .derivation
            .gaps(self.timeline.activities(), certain_to_ns);
        for (start_ns, end_ns) in gaps {
            if start_ns < started_ns || end_ns - start_ns < shared.threshold_ns {
                continue;
            }
            let gap = Gap {
                cpu: self.number,
                start_tsc: clock.tsc(start_ns),
                end_tsc: clock.tsc(end_ns),
                steal_ns: 0,
                reloads: 0,
                light_exits: 0,
                heavy_exits: 0,
                interference: None,
                run_delay_ns: 0,
            };
            self.explain(&gap, start_ns, end_ns, shared, on_interval);
        }
        self.derivation.reported_to_ns()
    }

    /// Explains one gap. Returns `false` if the length of the gap is impossible.
    fn explain(
        &mut self,
        gap: &Gap,
        start_ns: u64,
        end_ns: u64,
        shared: &mut Shared<'_>,
        on_interval: &mut dyn FnMut(&Explained<'_>),
    ) -> bool {
        let dur_ns = end_ns - start_ns;
        let Some(left_ns) = shared.room_ns.checked_sub(dur_ns) else {
            self.impossible_gaps += 1;
            return false;
        };
        *shared.room_ns = left_ns;
        self.late_gaps += u64::from(self.timeline.has_forgotten(start_ns));
        // The bound learns only from exits before the gap, so the result does not depend on
        // watermarks.
        self.kvm_bound
            .observe(self.timeline.activities(), start_ns, shared.names);
        let one_clock = shared.clock.has_anchor() || shared.visibility.is_observed();
        let activities = if one_clock {
            self.timeline.overlapping(start_ns, end_ns)
        } else {
            &[]
        };
        if let Some(stopped_ns) = stopped_ns(activities, start_ns, end_ns) {
            self.stops.meet_gap(start_ns, end_ns, dur_ns - stopped_ns);
            return true;
        }
        let is_near_exit = one_clock && self.host_exits.is_near(start_ns, end_ns);
        let blur_ns = self.host_exits.blur_ns();
        let (exits, host_coverage): (&mut [HostExit], _) = match one_clock {
            true => host_exits_of(
                &mut self.host_exits,
                self.number,
                (start_ns, end_ns),
                shared,
            ),
            false => (&mut [], HostCoverage::None),
        };
        let Shared {
            visibility, names, ..
        } = *shared;
        let context = Context {
            visibility,
            names,
            kvm_bound: &self.kvm_bound,
            host_coverage,
            blur_ns,
            is_near_exit,
            may_have_lost: !shared.stream_gaps.is_past(start_ns),
            is_unposted: self.posted.none_came(start_ns, end_ns),
        };
        let Shared {
            attribution, trace, ..
        } = shared;
        attribution.gap(gap, (start_ns, dur_ns), activities, exits, context);
        self.ledger.book_sources(attribution.pieces());
        attribution.settle();
        let explained = attribution.explained(exits, names);
        let interval = explained.interval;
        if let Detail::Gap(gap) = &interval.detail {
            self.ledger.book(interval, gap);
            if interval.is_unattributed() && visibility.may_have_feed() {
                self.host.note(BareGap::of(gap, dur_ns, visibility));
            }
        }
        if let Some(trace) = trace {
            trace.add_sample(interval, activities, names);
        }
        on_interval(&explained);
        true
    }
}
