//! What the stream has told of one vCPU so far.

use std::collections::VecDeque;
use std::sync::Arc;

use vmnoise_events::{Vcpu, VcpuInterval, VcpuTotals};

/// Intervals kept until an exit takes them (1 MiB): an exit that holds more finds its
/// first ones forgotten, and their time without names.
const KEPT: usize = 1 << 14;

#[derive(Debug)]
pub(super) struct SeenVcpu {
    pub(super) vcpu: Arc<Vcpu>,
    pub(super) totals: Option<VcpuTotals>,
    /// In the order of arrival.
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

    /// Takes its counts, which come each second and once it has ended. Of those who have ended no
    /// more room is kept than they need.
    pub(super) fn count(&mut self, totals: VcpuTotals) {
        self.intervals.shrink_to_fit();
        self.totals = Some(totals);
    }

    /// Hands over what was over by the end of an exit, sorted by begin, then end: no later
    /// exit holds it.
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
