//! What KVM itself may claim of an exit. `kvm` is what remains of an exit, so time
//! that nobody explains would silently become KVM's wherever host events make an
//! exit long. Exits without host events show what KVM takes for the same reason;
//! beyond their 99th percentile the remainder counts as residual.

use vmnoise_events::{Activity, ActivityKind, SourceId};

use crate::names::{Names, row};
use crate::plain_kvm::PlainKvm;

/// An exit that nothing has interrupted so far.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    exit: Activity,
    /// Time the VMM had of it, in nanoseconds, and the end of its last turn.
    vmm_ns: u64,
    vmm_end_ns: u64,
}

/// The plain exits of one CPU, found among its activities.
#[derive(Debug, Default)]
pub(crate) struct KvmBound {
    plain: PlainKvm,
    candidate: Option<Candidate>,
    busy_to_ns: u64,
    observed_to_ns: u64,
}

impl KvmBound {
    /// Learns from all activities that begin before `until_ns`; `activities` are
    /// sorted by begin. One that began before the last call's `until_ns` but came
    /// after it is left out: it costs a sample, not correctness.
    pub(crate) fn observe(&mut self, activities: &[Activity], until_ns: u64, names: &Names) {
        let new = activities.partition_point(|a| a.start_mono_ns < self.observed_to_ns);
        for activity in activities[new..]
            .iter()
            .take_while(|a| a.start_mono_ns < until_ns)
        {
            self.observe_one(activity, names);
        }
        self.observed_to_ns = self.observed_to_ns.max(until_ns);
    }

    fn observe_one(&mut self, activity: &Activity, names: &Names) {
        if let Some(candidate) = &mut self.candidate {
            if activity.start_mono_ns >= candidate.exit.end_mono_ns {
                let done = *candidate;
                self.record(&done, names);
                self.candidate = None;
            } else if activity.kind == ActivityKind::Vmm
                && activity.start_mono_ns >= candidate.vmm_end_ns
                && activity.end_mono_ns <= candidate.exit.end_mono_ns
            {
                candidate.vmm_ns += activity.end_mono_ns - activity.start_mono_ns;
                candidate.vmm_end_ns = activity.end_mono_ns;
            } else {
                self.candidate = None;
            }
        }
        if activity.kind == ActivityKind::Exit && activity.start_mono_ns >= self.busy_to_ns {
            self.candidate = Some(Candidate {
                exit: *activity,
                vmm_ns: 0,
                vmm_end_ns: 0,
            });
        }
        self.busy_to_ns = self.busy_to_ns.max(activity.end_mono_ns);
    }

    fn record(&mut self, plain: &Candidate, names: &Names) {
        let exit = &plain.exit;
        let reason = row(names.defined(exit.source));
        let length_ns = exit.end_mono_ns - exit.start_mono_ns;
        let kvm_ns = length_ns - plain.vmm_ns;
        self.plain.record(reason, plain.vmm_end_ns > 0, kvm_ns);
    }

    /// How much of `kvm_ns`, KVM's part of an exit that holds host events, is beyond
    /// what plain exits of the same class take. 0 as long as too few are known.
    pub(crate) fn surplus_ns(&self, reason: Option<SourceId>, heavy: bool, kvm_ns: u64) -> u64 {
        let p99_ns = self.plain.p99_ns(row(reason), heavy);
        p99_ns.map_or(0, |p99_ns| kvm_ns.saturating_sub(p99_ns))
    }
}

/// Host events and VMM turns inside one exit of a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inside {
    pub(crate) host_events: bool,
    pub(crate) vmm: bool,
}

/// Looks into the exit at `index`; `activities` are sorted by begin, so what nests
/// in it comes after it.
pub(crate) fn inside_exit(activities: &[Activity], index: usize) -> Inside {
    let mut inside = Inside {
        host_events: false,
        vmm: false,
    };
    let end_ns = activities[index].end_mono_ns;
    for activity in activities[index + 1..]
        .iter()
        .take_while(|a| a.start_mono_ns < end_ns)
    {
        match activity.kind {
            ActivityKind::Exit => {}
            ActivityKind::Vmm => inside.vmm = true,
            _ => inside.host_events = true,
        }
        if inside.vmm && inside.host_events {
            break;
        }
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;
    use ActivityKind::{Exit, Irq, Vmm};
    use vmnoise_events::Source;

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
            name: "msr_write".to_string(),
        });
        names
    }

    /// `count` exits of 1000 ns each, every 10 µs, each followed by what `with` adds.
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

    #[test]
    fn a_hundred_plain_exits_set_the_bound() {
        assert_eq!(
            bound_after(99, |_| vec![]).surplus_ns(Some(MSR), false, 5000),
            0
        );
        let enough = bound_after(100, |_| vec![]);
        assert_eq!(enough.surplus_ns(Some(MSR), false, 5000), 4000);
        assert_eq!(enough.surplus_ns(Some(MSR), false, 900), 0);
        assert_eq!(enough.surplus_ns(None, false, 5000), 0);
        assert_eq!(enough.surplus_ns(Some(MSR), true, 5000), 0);
    }

    #[test]
    fn interrupted_exits_are_no_standard() {
        let inside = bound_after(500, |start| vec![activity(Irq, start + 10, start + 20)]);
        assert_eq!(inside.surplus_ns(Some(MSR), false, 5000), 0);
        let across = bound_after(500, |start| {
            vec![activity(Irq, start + 9990, start + 10_010)]
        });
        assert_eq!(across.surplus_ns(Some(MSR), false, 5000), 0);
        let after = bound_after(500, |start| vec![activity(Irq, start + 1000, start + 1010)]);
        assert_eq!(after.surplus_ns(Some(MSR), false, 5000), 4000);
    }

    #[test]
    fn round_trips_to_the_vmm_are_a_class_of_their_own() {
        let heavy = bound_after(500, |start| vec![activity(Vmm, start + 100, start + 700)]);
        assert_eq!(heavy.surplus_ns(Some(MSR), true, 5000), 4600);
        assert_eq!(heavy.surplus_ns(Some(MSR), false, 5000), 0);
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
        let surplus = |bound: &KvmBound| bound.surplus_ns(Some(MSR), false, 5000);
        assert_eq!(surplus(&whole), surplus(&parts));
    }

    #[test]
    fn looks_only_into_the_exit() {
        let stream = [
            activity(Exit, 0, 50),
            activity(Vmm, 10, 20),
            activity(Irq, 50, 60),
        ];
        assert_eq!(
            inside_exit(&stream, 0),
            Inside {
                host_events: false,
                vmm: true
            }
        );
    }
}
