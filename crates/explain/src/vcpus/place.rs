//! State and CPU of a vCPU's thread during an exit, from the intervals of the vCPU.

use vmnoise_events::{Exit, Share, SourceId, VcpuInterval, VcpuIntervalKind};

/// State of a vCPU's thread. If intervals overlap, [`state_of`] decides which state holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// The thread runs in KVM.
    Kvm,
    /// The thread runs in the VMM.
    Vmm,
    /// The thread runs: KVM polls because the guest asked to sleep.
    Polling,
    /// The thread sleeps although the guest did not ask to sleep.
    Blocked,
    /// The thread sleeps because the guest asked to sleep.
    Halted,
    /// The thread is runnable but off the CPU.
    Waiting,
}

impl State {
    /// Returns the share of time in this state that no activity owns.
    pub(super) fn share(self) -> Share {
        match self {
            State::Kvm => Share::Kvm,
            State::Vmm => Share::Vmm,
            State::Polling | State::Halted => Share::Halted,
            State::Blocked => Share::Blocked,
            State::Waiting => Share::Preempted,
        }
    }
}

/// A segment of an exit on one CPU in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// CPU on which the thread ran, waited, or fell asleep.
    pub(super) cpu: u32,
    pub(super) state: State,
    /// Task that ended the sleep; `None` if the segment is no sleep.
    pub(super) waker: Option<SourceId>,
}

/// Returns the segments of an exit, whose lengths add up to the length of the exit. `intervals` are
/// intervals of the same vCPU, sorted by start, then end. The time of a lost interval counts as
/// KVM's.
pub(super) fn stretches(exit: &Exit, intervals: &[VcpuInterval]) -> Vec<Stretch> {
    let mut out = Vec::new();
    let (start_ns, end_ns) = (exit.start_mono_ns, exit.end_mono_ns);
    let overlapping = |interval: &&VcpuInterval| {
        interval.start_mono_ns.max(start_ns) < interval.end_mono_ns.min(end_ns)
    };
    let intervals = || intervals.iter().filter(overlapping);
    let mut edges: Vec<u64> = intervals()
        .flat_map(|interval| [interval.start_mono_ns, interval.end_mono_ns])
        .map(|edge_ns| edge_ns.clamp(start_ns, end_ns))
        .chain([start_ns, end_ns])
        .collect();
    edges.sort_unstable();
    edges.dedup();

    let mut coming = intervals().peekable();
    let mut open: Vec<&VcpuInterval> = Vec::new();
    let mut cpu = exit.exit_cpu;
    for (from_ns, to_ns) in edges.iter().zip(edges.iter().skip(1)) {
        open.retain(|interval| {
            let is_over = interval.end_mono_ns <= *from_ns;
            if is_over {
                cpu = interval.to_cpu;
            }
            !is_over
        });
        while let Some(begun) = coming.next_if(|interval| interval.start_mono_ns <= *from_ns) {
            cpu = begun.cpu;
            open.push(begun);
        }
        let (state, owner) = state_of(&open);
        out.push(Stretch {
            start_ns: *from_ns,
            end_ns: *to_ns,
            cpu: owner.map_or(cpu, |owner| owner.cpu),
            state,
            waker: owner
                .filter(|_| state == State::Blocked)
                .and_then(|owner| owner.source),
        });
    }
    out
}

/// Returns the state that follows from these open intervals, and the interval that gives the
/// thread's CPU.
fn state_of<'a>(open: &[&'a VcpuInterval]) -> (State, Option<&'a VcpuInterval>) {
    let last = |kind| open.iter().rfind(|interval| interval.kind == kind).copied();
    let halted = last(VcpuIntervalKind::Halted);
    if let Some(waiting) = last(VcpuIntervalKind::Waiting) {
        return (State::Waiting, Some(waiting));
    }
    if let Some(blocked) = last(VcpuIntervalKind::Blocked) {
        let state = halted.map_or(State::Blocked, |_| State::Halted);
        return (state, Some(blocked));
    }
    match (halted, last(VcpuIntervalKind::Vmm)) {
        (Some(_), _) => (State::Polling, None),
        (None, Some(_)) => (State::Vmm, None),
        (None, None) => (State::Kvm, None),
    }
}
