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
