//! The time in which nobody measured, because the workload was stopped or held.
//!
//! A gap around a stop is none: its begin is the way to the stop, and its end the way back. All
//! of it is taken off the runtime, so the time from the first reading to the last is what was
//! measured, what was not, and what the workload knows itself to be blind for. A stop that met no
//! gap lies in the latter. What comes after the last reading was not measured either, but is no
//! part of that time; what comes before the first is part of nothing.

use vmnoise_events::{Activation, Activity, ActivityKind};

/// Stops that wait for their gaps. A thread has one at a time: more come of a damaged stream only.
const WAITING: usize = 1 << 10;

#[derive(Debug)]
struct Stop {
    start_ns: u64,
    end_ns: u64,
    met_a_gap: bool,
}

impl Stop {
    /// How much of it lies in that time.
    fn inside_ns(&self, (from_ns, until_ns): (u64, u64)) -> u64 {
        let end_ns = self.end_ns.min(until_ns);
        end_ns.saturating_sub(self.start_ns.max(from_ns))
    }

    /// How much of it lies after that time.
    fn after_ns(&self, (_, until_ns): (u64, u64)) -> u64 {
        self.end_ns.saturating_sub(self.start_ns.max(until_ns))
    }
}

/// Times are CLOCK_MONOTONIC in nanoseconds, and so are windows: from the workload's first
/// reading to its last.
#[derive(Debug, Default)]
pub(crate) struct Stops {
    /// Those whose gaps may still come.
    waiting: Vec<Stop>,
    /// All others, and what is left of the gaps around stops.
    settled_ns: u64,
    /// How much of that met no gap.
    blind_ns: u64,
    /// How much of stops that are settled came after the last reading.
    after_ns: u64,
    /// When the last one was over.
    over_ns: u64,
}

impl Stops {
    /// Takes a stop off as soon as it is reported: its gap is explained later, and a period in
    /// between would have a runtime longer than itself.
    pub(crate) fn take_off(&mut self, stop: &Activity) {
        self.over_ns = self.over_ns.max(stop.end_mono_ns);
        // One that was reported before it was over, and then with its end.
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

    /// Takes off what is left of a gap around stops.
    pub(crate) fn meet_gap(&mut self, start_ns: u64, end_ns: u64, left_ns: u64) {
        self.settled_ns = self.settled_ns.saturating_add(left_ns);
        for stop in &mut self.waiting {
            stop.met_a_gap |= stop.start_ns < end_ns && stop.end_ns > start_ns;
        }
    }

    /// No gap still to come begins before this.
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

    /// The stops in that time, and what is left of the gaps around them.
    pub(crate) fn inside_ns(&self, window: (u64, u64)) -> u64 {
        let waiting = self.waiting.iter().map(|stop| stop.inside_ns(window));
        waiting.fold(self.settled_ns, u64::saturating_add)
    }

    /// As `inside_ns`, with those after it: a thread that is held to the end of its run reads no clock
    /// any more.
    pub(crate) fn not_measured_ns(&self, window: (u64, u64)) -> u64 {
        let waiting = self.waiting.iter().map(|stop| stop.after_ns(window));
        let after_ns = waiting.fold(self.after_ns, u64::saturating_add);
        self.inside_ns(window).saturating_add(after_ns)
    }

    /// How much of that is known to lie in time that the workload is blind for.
    pub(crate) fn blind_ns(&self) -> u64 {
        self.blind_ns
    }

    /// How many of the expiries that this task could not ask for were over only after the
    /// last stop.
    pub(crate) fn really_missed(&self, activation: &Activation, period_ns: u64) -> u32 {
        let since_ns = activation.expiry_mono_ns.checked_sub(self.over_ns);
        let after = since_ns.and_then(|since_ns| since_ns.checked_div(period_ns));
        let after = after.and_then(|after| u32::try_from(after).ok());
        after.map_or(activation.missed, |after| activation.missed.min(after))
    }
}

/// How much of that time the workload was stopped; `None` where it was not.
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
