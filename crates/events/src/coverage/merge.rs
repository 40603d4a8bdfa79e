//! Coverage of several runs of one machine together.

use super::{Coverage, RunEnd};
use crate::{MeasuringCommand, ShareMap};

impl Coverage {
    /// Returns the coverage of both recordings together. Each CPU keeps the coverage of its own
    /// recording. A fact about the whole machine gets the value of the recording that saw less.
    pub fn and(mut self, other: Coverage) -> Coverage {
        // An observed thread sees less than a polling thread.
        if other.workload == MeasuringCommand::Observed {
            self.workload = other.workload;
        }
        self.policy = self.policy.filter(|own| other.policy == Some(*own));
        self.threshold_ns = self.threshold_ns.max(other.threshold_ns);
        self.writing_ns = self.writing_ns.max(other.writing_ns);
        self.cpus.extend(other.cpus);
        self.pause = self.pause.or(other.pause);
        self.planned_ns = self.planned_ns.max(other.planned_ns);
        self.end = blinder(self.end, other.end);
        self.lost.gaps = self.lost.gaps.saturating_add(other.lost.gaps);
        self.lost.names = self.lost.names.saturating_add(other.lost.names);
        self.more_taken_than_measured |= other.more_taken_than_measured;
        self.unstored |= other.unstored;
        let (own, its) = (self.watched.known, other.watched.known);
        self.watched.known = ShareMap::from_fn(|share| own[share] && its[share]);
        self.watched.traced &= other.watched.traced;
        self.watched.hidden_interrupts |= other.watched.hidden_interrupts;
        let kvm_ns = &mut self.watched.unbounded_kvm_ns;
        *kvm_ns = kvm_ns.saturating_add(other.watched.unbounded_kvm_ns);
        let bounds_ns = self.clock.bound_ns.zip(other.clock.bound_ns);
        self.clock.bound_ns = bounds_ns.map(|(own_ns, its_ns)| own_ns.max(its_ns));
        self.clock.went_back_at_ns = self.clock.went_back_at_ns.or(other.clock.went_back_at_ns);
        self.clock.jumps = self.clock.jumps.saturating_add(other.clock.jumps);
        let undated_ns = &mut self.clock.undated_ns;
        *undated_ns = undated_ns.saturating_add(other.clock.undated_ns);
        self.others.extend(other.others);
        self
    }
}

fn blinder(one: RunEnd, other: RunEnd) -> RunEnd {
    let rank = |end: &RunEnd| match end {
        RunEnd::InOrder => 0,
        RunEnd::Failed => 1,
        RunEnd::CutOff => 2,
    };
    std::cmp::max_by_key(one, other, rank)
}
