//! Wake-ups of a periodic task on one CPU.

use vmnoise_events::Activation;

use super::stops::stopped_ns;
use super::{Cpu, Shared, host_exits_of};
use crate::attribute::{Context, Explained};
use crate::horizon::Horizon;
use crate::interval::Detail;
use crate::wakeups::WakeupLedger;

impl Cpu {
    /// Explains the wake-ups that ended by `horizon`. Returns the time before which no later
    /// wake-up was due. A task sets its next expiry only after it has woken up.
    pub(super) fn explain_wakeups(
        &mut self,
        horizon: Horizon,
        shared: &mut Shared<'_>,
        on_interval: &mut dyn FnMut(&Explained<'_>),
    ) -> u64 {
        let mut settled_ns = 0;
        for (activation, woke_ns) in self.waking.take(|ns| horizon.holds(ns)) {
            self.explain_wakeup(&activation, shared, on_interval);
            settled_ns = settled_ns.max(woke_ns);
        }
        if let Some(expiry_ns) = self.waking.first_begin() {
            settled_ns = settled_ns.min(expiry_ns);
        }
        settled_ns
    }

    fn explain_wakeup(
        &mut self,
        activation: &Activation,
        shared: &mut Shared<'_>,
        on_interval: &mut dyn FnMut(&Explained<'_>),
    ) {
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
        let blur_ns = self.host_exits.blur_ns();
        let (exits, host_coverage) = host_exits_of(
            &mut self.host_exits,
            self.number,
            (start_ns, end_ns),
            shared,
        );
        let Shared {
            visibility, names, ..
        } = *shared;
        let context = Context {
            visibility,
            names,
            kvm_bound: &self.kvm_bound,
            host_coverage,
            blur_ns,
            // A wake-up never gets the share `Hw`, whatever happened near it.
            is_near_exit: false,
            may_have_lost: false,
            is_unposted: false,
        };
        let Shared {
            attribution,
            waits_room,
            trace,
            ..
        } = shared;
        attribution.wakeup(activation, activities, exits, context);
        let explained = attribution.explained(exits, names);
        let interval = explained.interval;
        if let Detail::Wakeup(wakeup) = &interval.detail {
            if !ledger.book(interval, wakeup, period_ns, waits_room) {
                self.impossible_gaps += 1;
            }
            if let Some(trace) = trace {
                trace.add_wakeup(interval, wakeup, ledger.count());
            }
        }
        on_interval(&explained);
    }
}
