//! Events of one vCPU that wait for its exits.

use std::collections::VecDeque;
use std::sync::Arc;

use vmnoise_events::{Vcpu, VcpuInterval, VcpuTotals};

/// Maximum number of intervals that wait for an exit (1 MiB). If an exit has more intervals, the
/// first ones are dropped, and their time gets no names.
const KEPT: usize = 1 << 14;

#[derive(Debug)]
pub(super) struct SeenVcpu {
    pub(super) vcpu: Arc<Vcpu>,
    pub(super) totals: Option<VcpuTotals>,
    /// Intervals in the order of arrival.
    intervals: VecDeque<VcpuInterval>,
}

impl SeenVcpu {
    pub(super) fn new(vcpu: Vcpu) -> SeenVcpu {
        SeenVcpu {
            vcpu: Arc::new(vcpu),
            totals: None,
            intervals: VecDeque::new(),
        }
    }

    pub(super) fn add(&mut self, interval: VcpuInterval) {
        if self.intervals.len() == KEPT {
            self.intervals.pop_front();
        }
        self.intervals.push_back(interval);
    }

    /// Takes the totals, which arrive each second and once more after the vCPU has ended. Frees
    /// spare memory, so that an ended vCPU keeps none.
    pub(super) fn count(&mut self, totals: VcpuTotals) {
        self.intervals.shrink_to_fit();
        self.totals = Some(totals);
    }

    /// Removes and returns the intervals that ended by `end_ns`, the end of an exit. They are
    /// sorted by start, then end. No later exit contains these intervals.
    pub(super) fn intervals_until(&mut self, end_ns: u64) -> Vec<VcpuInterval> {
        let mut over: Vec<VcpuInterval> = Vec::new();
        self.intervals.retain(|interval| {
            let is_over = interval.end_mono_ns <= end_ns;
            if is_over {
                over.push(*interval);
            }
            !is_over
        });
        over.sort_by_key(|interval| {
            (
                interval.start_mono_ns,
                interval.end_mono_ns,
                interval.kind,
                interval.cpu,
            )
        });
        over
    }
}

#[cfg(test)]
mod tests {
    use vmnoise_events::{ShareMap, VcpuId, VcpuIntervalKind};

    use super::*;

    #[test]
    fn whoever_has_ended_keeps_no_room() {
        let id = VcpuId(0);
        let mut seen = SeenVcpu::new(Vcpu {
            id,
            tid: 80,
            vmm_pid: 9,
            number: None,
            vm: 0,
            vm_name: "web".into(),
            identity: Default::default(),
            sees_kvm: true,
        });
        for at in 0..1000 {
            seen.add(VcpuInterval {
                vcpu: id,
                kind: VcpuIntervalKind::Blocked,
                start_mono_ns: at,
                end_mono_ns: at + 1,
                cpu: 0,
                to_cpu: 0,
                source: None,
            });
        }
        assert_eq!(seen.intervals_until(1000).len(), 1000);
        seen.count(VcpuTotals {
            vcpu: id,
            first_mono_ns: 0,
            last_mono_ns: 1000,
            exits: 1,
            heavy: 0,
            split: ShareMap::default(),
            unseen_ns: 0,
            worst: None,
            reasons: Vec::new(),
        });
        assert_eq!(seen.intervals.capacity(), 0);
    }
}
