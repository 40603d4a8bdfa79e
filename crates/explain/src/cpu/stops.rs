//! Time without measurement, because the workload was stopped or held by a debugger.
//!
//! A gap around a stop is not noise: its start is the way to the stop, and its end is the way back.
//! The whole gap is subtracted from the runtime. Therefore the time from the first to the last
//! reading consists of measured time, unmeasured time, and blind time that the workload reports
//! itself.
//!
//! A stop without a gap lies in blind time. The time after the last reading was not measured
//! either, but is outside of this window. The time before the first reading does not count as
//! unmeasured.

use vmnoise_events::{Activation, Activity, ActivityKind};

/// Maximum number of stops that wait for their gaps. A thread has one stop at a time, so only a
/// damaged stream has more.
const WAITING: usize = 1 << 10;

#[derive(Debug)]
struct Stop {
    start_ns: u64,
    end_ns: u64,
    met_a_gap: bool,
}

impl Stop {
    /// Returns how much of the stop lies in the window.
    fn inside_ns(&self, (from_ns, until_ns): (u64, u64)) -> u64 {
        let end_ns = self.end_ns.min(until_ns);
        end_ns.saturating_sub(self.start_ns.max(from_ns))
    }

    /// Returns how much of the stop lies after the window.
    fn after_ns(&self, (_, until_ns): (u64, u64)) -> u64 {
        self.end_ns.saturating_sub(self.start_ns.max(until_ns))
    }
}

/// Sums of stops. Times are CLOCK_MONOTONIC in nanoseconds. A window goes from the workload's first
/// reading to its last.
#[derive(Debug, Default)]
pub(crate) struct Stops {
    /// Stops whose gaps may still arrive.
    waiting: Vec<Stop>,
    /// Time of all settled stops, plus the rest of the gaps around stops.
    settled_ns: u64,
    /// Part of `settled_ns` from stops without a gap.
    blind_ns: u64,
    /// Part of the settled stops after the last reading.
    after_ns: u64,
    /// End of the last stop.
    over_ns: u64,
}

impl Stops {
    /// Subtracts a stop from the runtime as soon as the stop is reported. The gap around the stop
    /// is explained later. Without this, the runtime of a period in between would be longer than
    /// the period.
    pub(crate) fn take_off(&mut self, stop: &Activity) {
        self.over_ns = self.over_ns.max(stop.end_mono_ns);
        // A stop may be reported first while it lasts, and again when it has ended.
        let mut waiting = self.waiting.iter_mut();
        if let Some(known) = waiting.find(|it| it.start_ns == stop.start_mono_ns) {
            known.end_ns = known.end_ns.max(stop.end_mono_ns);
            return;
        }
        if self.waiting.len() == WAITING {
            self.settle(u64::MAX, (0, u64::MAX));
        }
        self.waiting.push(Stop {
            start_ns: stop.start_mono_ns,
            end_ns: stop.end_mono_ns,
            met_a_gap: false,
        });
    }

    /// Subtracts the rest of a gap around stops. `left_ns` is the length of the gap without the
    /// stops.
    pub(crate) fn meet_gap(&mut self, start_ns: u64, end_ns: u64, left_ns: u64) {
        self.settled_ns = self.settled_ns.saturating_add(left_ns);
        for stop in &mut self.waiting {
            stop.met_a_gap |= stop.start_ns < end_ns && stop.end_ns > start_ns;
        }
    }

    /// Settles the stops that ended by `certain_to_ns`, because no later gap starts before this
    /// time.
    pub(crate) fn settle(&mut self, certain_to_ns: u64, window: (u64, u64)) {
        let over = self.waiting.extract_if(.., |it| it.end_ns <= certain_to_ns);
        for stop in over {
            let inside_ns = stop.inside_ns(window);
            self.settled_ns = self.settled_ns.saturating_add(inside_ns);
            self.after_ns = self.after_ns.saturating_add(stop.after_ns(window));
            if !stop.met_a_gap {
                self.blind_ns = self.blind_ns.saturating_add(inside_ns);
            }
        }
    }

    /// Returns the time of the stops in the window, plus the rest of the gaps around these stops.
    pub(crate) fn inside_ns(&self, window: (u64, u64)) -> u64 {
        let waiting = self.waiting.iter().map(|stop| stop.inside_ns(window));
        waiting.fold(self.settled_ns, u64::saturating_add)
    }

    /// Returns [`Self::inside_ns`] plus the time of stops after the window. A thread that is held
    /// until the end of its run reads no clock again.
    pub(crate) fn not_measured_ns(&self, window: (u64, u64)) -> u64 {
        let waiting = self.waiting.iter().map(|stop| stop.after_ns(window));
        let after_ns = waiting.fold(self.after_ns, u64::saturating_add);
        self.inside_ns(window).saturating_add(after_ns)
    }

    /// Returns the time of the stops that lie in the workload's blind time.
    pub(crate) fn blind_ns(&self) -> u64 {
        self.blind_ns
    }

    /// Returns the number of the task's missed expiries that passed after the last stop.
    pub(crate) fn really_missed(&self, activation: &Activation, period_ns: u64) -> u32 {
        let since_ns = activation.expiry_mono_ns.checked_sub(self.over_ns);
        let after = since_ns.and_then(|since_ns| since_ns.checked_div(period_ns));
        let after = after.and_then(|after| u32::try_from(after).ok());
        after.map_or(activation.missed, |after| activation.missed.min(after))
    }
}

/// Returns how long the workload was stopped between these times, in nanoseconds; `None` if it was
/// not stopped.
pub(super) fn stopped_ns(activities: &[Activity], start_ns: u64, end_ns: u64) -> Option<u64> {
    let stops = activities.iter();
    let stops = stops.filter(|activity| activity.kind == ActivityKind::Stopped);
    let inside = stops.map(|stop| {
        let (start_ns, end_ns) = (
            stop.start_mono_ns.max(start_ns),
            stop.end_mono_ns.min(end_ns),
        );
        end_ns.saturating_sub(start_ns)
    });
    let sum_ns = inside.fold(0, u64::saturating_add);
    (sum_ns > 0).then_some(sum_ns.min(end_ns - start_ns))
}
