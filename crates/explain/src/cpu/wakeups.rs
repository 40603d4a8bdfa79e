//! The wake-ups of a periodic task on one CPU.

use vmnoise_events::Activation;

use super::{Cpu, Shared, told_below};
use crate::reach::Reach;
use crate::sight::Testimony;
use crate::wakeups::{Ground, WakeupLedger};

impl Cpu {
    /// Explains wake-ups that were over by then; returns before when no later one was due. A
    /// task asks for the next expiry only once it has woken up.
    pub(super) fn explain_wakeups(&mut self, reach: Reach, shared: &mut Shared<'_>) -> u64 {
        let mut waking = std::mem::take(&mut self.waking);
        waking.sort_by_key(|activation| (activation.expiry_mono_ns, activation.woke_mono_ns));
        let mut settled_ns = 0;
        waking.retain(|activation| {
            let is_due = activation.woke_mono_ns <= reach.mono_ns();
            if is_due {
                self.explain_wakeup(activation, shared);
                settled_ns = settled_ns.max(activation.woke_mono_ns);
            }
            !is_due
        });
        if let Some(first) = waking.first() {
            settled_ns = settled_ns.min(first.expiry_mono_ns);
        }
        self.waking = waking;
        settled_ns
    }

    fn explain_wakeup(&mut self, activation: &Activation, shared: &mut Shared<'_>) {
        let (start_ns, end_ns) = (activation.expiry_mono_ns, activation.woke_mono_ns);
        let ledger = self.wakeups.get_or_insert_with(WakeupLedger::new);
        if !ledger.has_room(end_ns - start_ns) {
            self.impossible_gaps += 1;
            return;
        }
        self.late_gaps += u64::from(self.timeline.has_forgotten(start_ns));
        let activities = self.timeline.overlapping(start_ns, end_ns);
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
