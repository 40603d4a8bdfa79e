//! Computes the net duration of each whole activity of one CPU, inside and outside of gaps. The
//! parts of a gap contain only the time inside the gap.

use std::collections::BTreeMap;

use vmnoise_events::Activity;

use crate::own_steal::OwnSteal;
use crate::sweep::{Sweep, sweep_order};
use crate::timeline::{KEPT, LIVE};

/// Activities by end time. A number distinguishes activities that end at the same time.
type ByEnd = BTreeMap<(u64, u64), Activity>;

/// Activities that wait until no later activity can surround them.
#[derive(Debug, Default)]
pub(crate) struct NetNoise {
    /// Activities without a known net duration.
    open: ByEnd,
    /// Activities with a reported net duration.
    reported: ByEnd,
    numbers: u64,
    /// Number of activities that may still be visited.
    looks_left: u64,
    /// Time up to which activities are forgotten, although a later activity may still surround
    /// them.
    forgotten_to_ns: u64,
    crowded: u64,
    /// Scratch memory: activities of the next sweep. The flag is true if the duration of the
    /// activity is to be reported.
    around: Vec<(Activity, bool)>,
    swept: Vec<Activity>,
    sweep: Sweep,
    own_steal: OwnSteal,
}

impl NetNoise {
    pub(crate) fn push(&mut self, activity: Activity) {
        self.numbers += 1;
        // A pass visits an activity if other activities end inside of it or next to it. If more
        // than [`LIVE`] activities run at one instant, the file is damaged. Without this limit, the
        // time would grow with the square of the size of the file.
        self.looks_left += LIVE as u64;
        let key = (activity.end_mono_ns, self.numbers);
        self.open.insert(key, activity);
    }

    /// Returns whether no activity is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.reported.is_empty()
    }

    /// Returns the number of activities without a trace line, because more than [`LIVE`] activities
    /// ran at once.
    pub(crate) fn crowded(&self) -> u64 {
        self.crowded
    }

    /// Reports every activity that ended by `horizon_ns` and owned time, each activity once.
    /// Activities nested in it ended earlier, so the duration is final. If `with_steal` is true,
    /// steal was sampled, and the duration excludes the steal inside.
    pub(crate) fn report(
        &mut self,
        horizon_ns: u64,
        with_steal: bool,
        on_noise: &mut dyn FnMut(&Activity, u64),
    ) {
        let later = self.open.split_off(&(horizon_ns, u64::MAX));
        let due = std::mem::replace(&mut self.open, later);
        let spans = due.values().map(|it| (it.start_mono_ns, it.end_mono_ns));
        let Some((from_ns, to_ns)) = spans.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
        else {
            return;
        };
        let reported = || self.reported.range((from_ns, 0)..).map(|(_, it)| it);
        let looks = (due.len() + self.open.len() + reported().count()) as u64;
        let Some(left) = self.looks_left.checked_sub(looks) else {
            self.crowded += (due.len() + self.open.len()) as u64;
            let last_ns = self.open.last_key_value().map(|((end_ns, _), _)| *end_ns);
            self.forget_to(last_ns.unwrap_or(to_ns));
            self.open.clear();
            self.reported.clear();
            return;
        };
        self.looks_left = left;
        self.around.clear();
        self.around.extend(due.values().map(|it| (*it, true)));
        let others = reported().chain(self.open.values());
        let others = others.filter(|it| it.start_mono_ns <= to_ns);
        self.around.extend(others.map(|it| (*it, false)));
        self.around
            .sort_by_key(|(activity, _)| sweep_order(activity));
        self.swept.clear();
        self.swept
            .extend(self.around.iter().map(|(activity, _)| *activity));
        self.sweep.run(from_ns, to_ns, &self.swept);
        let net_ns = self.sweep.net_ns();
        let stolen_ns = match with_steal {
            true => self.own_steal.run(&self.swept, net_ns),
            false => &[],
        };
        for (index, (activity, is_due)) in self.around.iter().enumerate() {
            if !is_due {
                continue;
            }
            if activity.start_mono_ns < self.forgotten_to_ns {
                // An activity that is nested in this one may be forgotten.
                self.crowded += 1;
            } else if net_ns[index] > 0 {
                let stolen_ns = stolen_ns.get(index).copied().unwrap_or(0);
                on_noise(activity, net_ns[index] - stolen_ns);
            }
        }
        self.reported.extend(due);
    }

    /// Forgets the reported activities that ended by `settled_ns`. The workload ran at this time,
    /// so every activity that still runs started later.
    pub(crate) fn forget(&mut self, settled_ns: u64) {
        let goes_on = self.reported.split_off(&(settled_ns, u64::MAX));
        self.reported = goes_on;
        while self.open.len() + self.reported.len() > KEPT {
            if let Some(((end_ns, _), _)) = self.reported.pop_first() {
                self.forget_to(end_ns);
            } else if let Some(((end_ns, _), _)) = self.open.pop_last() {
                self.forget_to(end_ns);
                self.crowded += 1;
            }
        }
    }

    fn forget_to(&mut self, end_ns: u64) {
        self.forgotten_to_ns = self.forgotten_to_ns.max(end_ns);
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
        assert!(noise.is_empty());
    }

    #[test]
    fn what_is_still_to_come_is_not_looked_at_again_and_again() {
        let mut noise = NetNoise::default();
        for turn in 0..100_000 {
            noise.push(activity(Irq, (1 << 60) - turn, (1 << 60) + turn));
            assert_eq!(reported(&mut noise, turn, false), []);
        }
        assert_eq!(noise.looks_left, 100_000 * LIVE as u64);
    }

    #[test]
    fn crowds_have_no_lines_and_are_counted() {
        let mut noise = NetNoise::default();
        let count = 10 * LIVE as u64;
        let mut lines = 0;
        for turn in 1..=count {
            noise.push(activity(Irq, 0, turn));
            lines += reported(&mut noise, turn, false).len() as u64;
        }
        // Pass n visits n activities, and each activity allows LIVE more visits. The sum
        // n * (n + 1) / 2 exceeds n * LIVE at 2 * LIVE.
        let with_line = 2 * LIVE as u64 - 1;
        assert_eq!((lines, noise.crowded()), (with_line, count - with_line));
    }

    #[test]
    fn what_goes_on_to_the_end_of_time_has_its_line_then() {
        let mut noise = NetNoise::default();
        noise.push(activity(Irq, u64::MAX - 7, u64::MAX));
        assert_eq!(reported(&mut noise, u64::MAX - 1, false), []);
        assert_eq!(reported(&mut noise, u64::MAX, false), [(Irq, 7)]);
        noise.forget(u64::MAX);
        assert!(noise.is_empty());
    }

    #[test]
    fn nothing_has_a_line_that_lies_around_what_a_crowd_made_forgotten() {
        let mut noise = NetNoise::default();
        for _ in 0..=LIVE {
            noise.push(activity(Irq, 0, 100));
        }
        noise.push(activity(Irq, 150, 160));
        noise.looks_left = 0;
        assert_eq!(reported(&mut noise, 100, false), []);
        noise.push(activity(Thread, 120, 200));
        noise.push(activity(Irq, 160, 190));
        assert_eq!(reported(&mut noise, 200, false), [(Irq, 30)]);
        assert_eq!(noise.crowded(), LIVE as u64 + 3);
    }
}
