//! The wake-ups of a periodic task on one CPU.

use vmnoise_events::Activation;

use super::stops::stopped_ns;
use super::{Cpu, Shared, told_below};
use crate::reach::Reach;
use crate::sight::Testimony;
use crate::wakeups::{Ground, WakeupLedger};

impl Cpu {
    /// Explains wake-ups that were over by then; returns before when no later one was due. A
    /// task asks for the next expiry only once it has woken up.
    pub(super) fn explain_wakeups(&mut self, reach: Reach, shared: &mut Shared<'_>) -> u64 {
        let mut settled_ns = 0;
        for (activation, woke_ns) in self.waking.take(|ns| reach.holds(ns)) {
            self.explain_wakeup(&activation, shared);
            settled_ns = settled_ns.max(woke_ns);
        }
        if let Some(expiry_ns) = self.waking.first_begin() {
            settled_ns = settled_ns.min(expiry_ns);
        }
        settled_ns
    }

    fn explain_wakeup(&mut self, activation: &Activation, shared: &mut Shared<'_>) {
        let (start_ns, end_ns) = (activation.expiry_mono_ns, activation.woke_mono_ns);
        let ledger = self.wakeups.get_or_insert_with(WakeupLedger::new);
        let Some(left_ns) = shared.room_ns.checked_sub(end_ns - start_ns) else {
            self.impossible_gaps += 1;
            return;
        };
        *shared.room_ns = left_ns;
        self.late_gaps += u64::from(self.timeline.has_forgotten(start_ns));
        let activities = self.timeline.overlapping(start_ns, end_ns);
        let period_ns = shared.timer_period_ns;
        if stopped_ns(activities, start_ns, end_ns).is_some() {
            ledger.leave_out(start_ns, end_ns, period_ns);
            return;
        }
        let activation = &Activation {
            missed: self.stops.really_missed(activation, period_ns),
            ..*activation
        };
        let blur_ns = self.below.blur_ns();
        let (exits, testimony) =
            told_below(&mut self.below, self.number, (start_ns, end_ns), shared);
        let Shared { sight, names, .. } = *shared;
        let ground = Ground {
            sight,
            names,
            testimony,
            blur_ns,
        };
        let wakeup = shared.cutter.cut(activation, activities, exits, ground);
        let witnessed = testimony != Testimony::None;
        if !ledger.book(
            &wakeup,
            shared.timer_period_ns,
            witnessed,
            shared.waits_room,
        ) {
            self.impossible_gaps += 1;
        }
        if sight.is_joined() {
            (shared.on_joined)(&shared.cutter.explained(&wakeup, exits, ground));
        }
        if let Some(trace) = &mut shared.trace {
            trace.add_wakeup(&wakeup, ledger.count());
        }
        (shared.on_wakeup)(wakeup);
    }
}
