//! Learns KVM's usual time from exits of a microVM among the activities of its host, and compares
//! KVM's time in the exits of gaps with it.

use vmnoise_events::{Activity, ActivityKind};

use crate::names::{Names, row};
use crate::near::near_front;
use crate::timeline::LIVE;
use crate::usual_kvm::{Held, KvmPart, Others, UsualKvm};

/// Exit that may show KVM's usual time, because little other work took part in it.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    exit: Activity,
    inside: Inside,
    /// Time of the VMM and of an interrupt in the exit, in nanoseconds.
    taken_ns: u64,
    /// End of the last of these activities, CLOCK_MONOTONIC in nanoseconds.
    taken_to_ns: u64,
}

/// KVM's usual time on one CPU.
#[derive(Debug, Default)]
pub(crate) struct KvmBound {
    usual: UsualKvm,
    candidate: Option<Candidate>,
    busy_to_ns: u64,
    observed_to_ns: u64,
    /// Index of the first activity that the last call did not visit.
    likely_first: usize,
}

impl KvmBound {
    /// Learns from the exits that end by `until_ns`. `activities` are sorted by start. An exit that
    /// started before the `until_ns` of the last call, but arrived after that call, is left out.
    /// This costs a sample, but no correctness.
    pub(crate) fn observe(&mut self, activities: &[Activity], until_ns: u64, names: &Names) {
        let new = self.first_new(activities);
        let begun = near_front(&activities[new..], |a| a.start_mono_ns < until_ns);
        for activity in &activities[new..new + begun] {
            self.observe_one(activity, names);
        }
        self.likely_first = new + begun;
        self.settle(until_ns, names);
        self.observed_to_ns = self.observed_to_ns.max(until_ns);
    }

    /// Returns the index of the first activity that no earlier call has visited. From gap to gap of
    /// one pass, the last call ended at this index.
    fn first_new(&self, activities: &[Activity]) -> usize {
        let is_old = |a: &Activity| a.start_mono_ns < self.observed_to_ns;
        let likely = self.likely_first.min(activities.len());
        let (before, behind) = activities.split_at(likely);
        match before.last().is_none_or(is_old) && !behind.first().is_some_and(is_old) {
            true => likely,
            false => activities.partition_point(is_old),
        }
    }

    fn observe_one(&mut self, activity: &Activity, names: &Names) {
        self.settle(activity.start_mono_ns, names);
        self.candidate = self.candidate.and_then(|exit| exit.with(activity));
        if activity.kind == ActivityKind::Exit && activity.start_mono_ns >= self.busy_to_ns {
            self.candidate = Candidate::new(activity);
        }
        self.busy_to_ns = self.busy_to_ns.max(activity.end_mono_ns);
    }

    /// Learns from the candidate if it ended by `until_ns`. Every later activity starts at
    /// `until_ns` or later.
    fn settle(&mut self, until_ns: u64, names: &Names) {
        let is_over = |it: &mut Candidate| it.exit.end_mono_ns <= until_ns;
        if let Some(Candidate {
            exit,
            inside,
            taken_ns,
            ..
        }) = self.candidate.take_if(is_over)
        {
            let dur_ns = exit.end_mono_ns - exit.start_mono_ns;
            self.usual
                .learn(part(&exit, inside, dur_ns - taken_ns, names));
        }
    }

    /// Compares KVM's time `kvm_ns` in an exit with KVM's usual time. The exit is the element
    /// `index` of `activities`, which overlap a gap and are sorted by start.
    pub(crate) fn judge(
        &self,
        activities: &[Activity],
        index: usize,
        kvm_ns: u64,
        names: &Names,
    ) -> Held {
        let inside = inside_exit(activities, index);
        self.usual
            .judge(part(&activities[index], inside, kvm_ns, names))
    }
}

impl Candidate {
    /// Creates a candidate. Returns `None` if time was stolen inside the exit, because stolen time
    /// is not KVM's.
    fn new(exit: &Activity) -> Option<Candidate> {
        (exit.steal_ns == 0).then_some(Candidate {
            exit: *exit,
            inside: Inside::default(),
            taken_ns: 0,
            taken_to_ns: 0,
        })
    }

    /// Adds the next activity that starts in this exit. Returns `None` if the exit can no longer
    /// show KVM's usual time. The exit may contain the VMM and one interrupt, one after the other.
    fn with(mut self, activity: &Activity) -> Option<Candidate> {
        let Activity {
            start_mono_ns,
            end_mono_ns,
            ..
        } = *activity;
        self.inside.add(activity.kind);
        let may_be = activity.kind != ActivityKind::Exit && self.inside.others() != Others::More;
        let fits = start_mono_ns >= self.taken_to_ns && end_mono_ns <= self.exit.end_mono_ns;
        (may_be && fits).then(|| Candidate {
            taken_ns: self.taken_ns + (end_mono_ns - start_mono_ns),
            taken_to_ns: end_mono_ns,
            ..self
        })
    }
}

fn part(exit: &Activity, inside: Inside, ns: u64, names: &Names) -> KvmPart {
    KvmPart {
        reason: row(names.defined(exit.source)),
        heavy: inside.vmm,
        others: inside.others(),
        ns,
    }
}

/// Other work inside one exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Inside {
    vmm: bool,
    interrupts: u32,
    more: bool,
}

impl Inside {
    fn add(&mut self, kind: ActivityKind) {
        match kind {
            ActivityKind::Exit => {}
            ActivityKind::Vmm => self.vmm = true,
            ActivityKind::Irq => self.interrupts += 1,
            _ => self.more = true,
        }
    }

    fn others(self) -> Others {
        match (self.more, self.interrupts) {
            (false, 0) => Others::Nobody,
            (false, 1) => Others::OneInterrupt,
            _ => Others::More,
        }
    }
}

/// Returns the other work inside the exit at `index`. `activities` are sorted by start, so
/// activities nested in the exit come after it.
fn inside_exit(activities: &[Activity], index: usize) -> Inside {
    let mut inside = Inside::default();
    let end_ns = activities[index].end_mono_ns;
    let nested = activities[index + 1..].iter();
    let mut exits = 0;
    for activity in nested.take_while(|a| a.start_mono_ns < end_ns) {
        inside.add(activity.kind);
        // An exit contains no other exit, but a damaged stream may nest any number of them.
        exits += usize::from(activity.kind == ActivityKind::Exit);
        if exits > LIVE {
            inside.more = true;
            break;
        }
        if inside.vmm && inside.others() == Others::More {
            break;
        }
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;
    use ActivityKind::{Exit, Irq, Vmm};
    use vmnoise_events::{Source, SourceId};

    const MSR: SourceId = SourceId(0);

    fn activity(kind: ActivityKind, start_mono_ns: u64, end_mono_ns: u64) -> Activity {
        Activity {
            cpu: 0,
            kind,
            start_mono_ns,
            end_mono_ns,
            source: MSR,
            steal_ns: 0,
        }
    }

    fn names() -> Names {
        let mut names = Names::default();
        names.define(&Source {
            id: MSR,
            name: "msr_write".into(),
        });
        names
    }

    /// Returns the bound after `count` exits of 1000 ns each, which start every 10 µs. `with`
    /// returns the activities that follow each exit.
    fn bound_after(count: u64, with: impl Fn(u64) -> Vec<Activity>) -> KvmBound {
        let mut activities = Vec::new();
        for start in (0..=count).map(|n| n * 10_000) {
            activities.push(activity(Exit, start, start + 1000));
            activities.extend(with(start));
        }
        let mut bound = KvmBound::default();
        bound.observe(&activities, u64::MAX, &names());
        bound
    }

    /// Returns the surplus and the unbounded time of an exit that contains 5 µs of KVM's time and
    /// an interrupt.
    fn held(bound: &KvmBound, more: &[Activity]) -> (u64, u64) {
        let mut gap = vec![activity(Exit, 0, 6_000), activity(Irq, 100, 1_100)];
        gap.extend_from_slice(more);
        let held = bound.judge(&gap, 0, 5_000, &names());
        (held.surplus_ns, held.unbounded_ns)
    }

    #[test]
    fn a_hundred_plain_exits_set_the_bound() {
        assert_eq!(held(&bound_after(98, |_| vec![]), &[]), (0, 5_000));
        let enough = bound_after(99, |_| vec![]);
        assert_eq!(held(&enough, &[]), (4_000, 0));
        let heavy = [activity(Vmm, 2_000, 3_000)];
        assert_eq!(held(&enough, &heavy), (0, 5_000));
        let plain = enough.judge(&[activity(Exit, 0, 6_000)], 0, 6_000, &names());
        assert_eq!(plain, Held::default());
    }

    #[test]
    fn exits_with_one_interrupt_teach_of_their_like() {
        let inside = bound_after(500, |start| vec![activity(Irq, start + 10, start + 20)]);
        assert_eq!(held(&inside, &[]), (4_010, 0));
        let two = |start| {
            vec![
                activity(Irq, start + 10, start + 20),
                activity(Irq, start + 20, start + 30),
            ]
        };
        assert_eq!(held(&bound_after(500, two), &[]), (0, 5_000));
    }

    #[test]
    fn exits_that_others_reach_into_are_no_standard() {
        let across = bound_after(500, |start| {
            vec![activity(Irq, start + 9990, start + 10_010)]
        });
        assert_eq!(held(&across, &[]), (0, 5_000));
        let beyond = bound_after(500, |start| vec![activity(Irq, start + 990, start + 1_010)]);
        assert_eq!(held(&beyond, &[]), (0, 5_000));
        let after = bound_after(500, |start| vec![activity(Irq, start + 1000, start + 1010)]);
        assert_eq!(held(&after, &[]), (4_000, 0));
        let with_steal = |start| Activity {
            steal_ns: 1,
            ..activity(Exit, start + 5_000, start + 5_900)
        };
        let stolen = bound_after(50, |start| vec![with_steal(start)]);
        assert_eq!(held(&stolen, &[]), (0, 5_000));
    }

    #[test]
    fn round_trips_to_the_vmm_are_a_class_of_their_own() {
        let heavy = bound_after(500, |start| vec![activity(Vmm, start + 100, start + 700)]);
        assert_eq!(held(&heavy, &[activity(Vmm, 2_000, 3_000)]), (4_600, 0));
        assert_eq!(held(&heavy, &[]), (0, 5_000));
    }

    #[test]
    fn batches_do_not_change_what_is_learned() {
        let activities: Vec<Activity> = (0..=150)
            .map(|n| activity(Exit, n * 10_000, n * 10_000 + 1000 + n))
            .collect();
        let mut whole = KvmBound::default();
        whole.observe(&activities, u64::MAX, &names());
        let mut parts = KvmBound::default();
        for (n, batch) in activities.chunks(7).enumerate() {
            parts.observe(batch, (n as u64 + 1) * 70_000, &names());
        }
        assert_eq!(held(&whole, &[]), held(&parts, &[]));
    }

    #[test]
    fn looks_only_into_the_exit() {
        let stream = [
            activity(Exit, 0, 50),
            activity(Vmm, 10, 20),
            activity(Irq, 50, 60),
        ];
        let inside = inside_exit(&stream, 0);
        assert_eq!((inside.vmm, inside.others()), (true, Others::Nobody));
    }
}
