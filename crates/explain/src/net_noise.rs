//! The net duration of each activity of one CPU, in gaps and between them: what the
//! budget of a gap says of its part, said of the whole.

use vmnoise_events::Activity;

use crate::own_steal::OwnSteal;
use crate::sweep::{Sweep, sweep_order};
use crate::timeline::KEPT;

/// Activities until nothing that is still to come can lie around them.
#[derive(Debug, Default)]
pub(crate) struct NetNoise {
    /// Each with whether its duration was reported.
    kept: Vec<(Activity, bool)>,
    /// Scratch: what the next sweep takes.
    swept: Vec<Activity>,
    sweep: Sweep,
    own_steal: OwnSteal,
}

impl NetNoise {
    pub(crate) fn push(&mut self, activity: Activity) {
        self.kept.push((activity, false));
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Reports every activity that ended by `horizon_ns` and owned time, once. What is
    /// nested in an activity ends before it, so that its duration is final then; it
    /// is net of the steal inside where `with_steal` says that this was sampled.
    pub(crate) fn report(
        &mut self,
        horizon_ns: u64,
        with_steal: bool,
        on_noise: &mut dyn FnMut(&Activity, u64),
    ) {
        let is_due = |(activity, reported): &(Activity, bool)| {
            !reported && activity.end_mono_ns <= horizon_ns
        };
        let due = self.kept.iter().filter(|entry| is_due(entry));
        let Some((from_ns, to_ns)) = due
            .map(|(activity, _)| (activity.start_mono_ns, activity.end_mono_ns))
            .reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
        else {
            return;
        };
        self.kept.sort_by_key(|(activity, _)| sweep_order(activity));
        let lies_around = |activity: &Activity| {
            activity.end_mono_ns >= from_ns && activity.start_mono_ns <= to_ns
        };
        let around = self
            .kept
            .iter()
            .filter(|(activity, _)| lies_around(activity));
        self.swept.clear();
        self.swept.extend(around.map(|(activity, _)| *activity));
        self.sweep.run(from_ns, to_ns, &self.swept);
        let net_ns = self.sweep.net_ns();
        let robbed_ns = match with_steal {
            true => self.own_steal.run(&self.swept, net_ns),
            false => &[],
        };
        let around = self
            .kept
            .iter_mut()
            .filter(|(activity, _)| lies_around(activity));
        for (index, entry) in around.enumerate() {
            if is_due(entry) {
                entry.1 = true;
                if net_ns[index] > 0 {
                    let robbed_ns = robbed_ns.get(index).copied().unwrap_or(0);
                    on_noise(&entry.0, net_ns[index] - robbed_ns);
                }
            }
        }
    }

    /// Forgets what was reported and ended by `settled_ns`: the workload was seen to run
    /// then, so nothing that goes on began before.
    pub(crate) fn forget(&mut self, settled_ns: u64) {
        self.kept
            .retain(|(activity, reported)| !reported || activity.end_mono_ns > settled_ns);
        if let Some(excess) = self.kept.len().checked_sub(KEPT) {
            self.kept.drain(..excess);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmnoise_events::ActivityKind::{self, Irq, Nmi, Softirq, Thread};
    use vmnoise_events::SourceId;

    fn activity(kind: ActivityKind, start_mono_ns: u64, end_mono_ns: u64) -> Activity {
        Activity {
            cpu: 0,
            kind,
            start_mono_ns,
            end_mono_ns,
            source: SourceId(0),
            steal_ns: 2,
        }
    }

    fn reported(
        noise: &mut NetNoise,
        horizon_ns: u64,
        with_steal: bool,
    ) -> Vec<(ActivityKind, u64)> {
        let mut reported = Vec::new();
        noise.report(horizon_ns, with_steal, &mut |activity, ns| {
            reported.push((activity.kind, ns));
        });
        reported
    }

    #[test]
    fn what_preempts_and_what_was_stolen_is_taken_off() {
        let nested = [
            activity(Thread, 0, 100),
            activity(Softirq, 10, 60),
            activity(Irq, 20, 50),
            activity(Nmi, 30, 35),
        ];
        let mut noise = NetNoise::default();
        nested.iter().for_each(|activity| noise.push(*activity));
        let gross = [(Thread, 50), (Softirq, 20), (Irq, 25), (Nmi, 5)];
        assert_eq!(reported(&mut noise, 100, false), gross);
        assert_eq!(reported(&mut noise, 900, false), []);

        let mut noise = NetNoise::default();
        noise.push(activity(Nmi, 30, 35));
        assert_eq!(reported(&mut noise, 900, true), [(Nmi, 3)]);
    }

    #[test]
    fn an_outer_one_that_ends_later_is_net_of_what_was_reported_before() {
        let mut noise = NetNoise::default();
        noise.push(activity(Irq, 20, 30));
        assert_eq!(reported(&mut noise, 40, false), [(Irq, 10)]);
        noise.forget(10);
        noise.push(activity(Thread, 10, 50));
        assert_eq!(reported(&mut noise, 45, false), []);
        assert_eq!(reported(&mut noise, 50, false), [(Thread, 30)]);
        noise.forget(50);
        assert!(noise.kept.is_empty());
    }
}
