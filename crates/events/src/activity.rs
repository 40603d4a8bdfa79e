//! Work that a kernel did while a workload did not have its CPU.

use serde::{Deserialize, Serialize};

use crate::Name;

/// Kind of work that took the CPU, in order of precedence. If two activities overlap, the later
/// variant gets the time of the overlap. So every share is net: NMI > IRQ > softirq > thread, and
/// the work of a host in a vmexit is no part of the exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum ActivityKind {
    /// A vmexit, from `kvm_exit` to `kvm_entry`.
    Exit = 0,
    /// Time of the VMM: the vCPU thread was outside KVM_RUN.
    Vmm = 1,
    /// The workload was runnable but not on the CPU, and the CPU's idle task ran.
    Throttled = 2,
    /// Another task ran on this CPU.
    Thread = 3,
    /// The workload's thread slept; the source is the task that woke it.
    Blocked = 4,
    /// A softirq ran.
    Softirq = 5,
    /// An interrupt handler ran.
    Irq = 6,
    /// A non-maskable interrupt handler ran.
    Nmi = 7,
    /// The workload's thread did not measure, because a signal (SIGSTOP, Ctrl-Z) or a debugger had
    /// stopped it.
    Stopped = 8,
}

impl ActivityKind {
    /// Every kind, ordered by its number in recordings.
    pub const ALL: [ActivityKind; 9] = [
        ActivityKind::Exit,
        ActivityKind::Vmm,
        ActivityKind::Throttled,
        ActivityKind::Thread,
        ActivityKind::Blocked,
        ActivityKind::Softirq,
        ActivityKind::Irq,
        ActivityKind::Nmi,
        ActivityKind::Stopped,
    ];

    /// Returns the kind with this number, or `None` if this version does not know the number.
    pub fn from_number(number: u8) -> Option<ActivityKind> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns whether the interference counter counts this kind (NMI, interrupt, softirq, other
    /// task). All other kinds are states of the workload's thread.
    pub const fn is_interference(self) -> bool {
        match self {
            ActivityKind::Nmi
            | ActivityKind::Irq
            | ActivityKind::Softirq
            | ActivityKind::Thread => true,
            ActivityKind::Exit
            | ActivityKind::Vmm
            | ActivityKind::Throttled
            | ActivityKind::Blocked
            | ActivityKind::Stopped => false,
        }
    }

    /// Returns the number of this kind in recordings and on the wire from BPF.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// Id of a [`Source`] that was defined earlier in the same event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SourceId(pub u32);

/// Name of an active task or interrupt, in the notation of the kernel's osnoise tracer:
/// `local_timer:236` (interrupt:vector), `NET_RX:3` (softirq:number), `comm:pid`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Id, assigned in order from 0 without gaps.
    pub id: SourceId,
    /// The label that results print.
    pub name: Name,
}

/// One interval in which a kernel worked on one CPU. Intervals may overlap and nest; the order of
/// [`ActivityKind`] decides which activity gets the time of an overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// CPU of the host on which the activity ran.
    pub cpu: u32,
    /// Kind of work.
    pub kind: ActivityKind,
    /// Start, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// End, CLOCK_MONOTONIC in nanoseconds. An end before the start is a defect of the stream; such
    /// an activity explains no time.
    pub end_mono_ns: u64,
    /// The active task or interrupt.
    pub source: SourceId,
    /// Advance of this kernel's own steal clock between start and end, in nanoseconds, including
    /// nested activities. A hypervisor had the CPU in this time. The value is valid only if the run
    /// has [`crate::Witnesses::activity_steal`].
    pub steal_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip() {
        for kind in ActivityKind::ALL {
            assert_eq!(ActivityKind::from_number(kind.number()), Some(kind));
        }
        assert_eq!(ActivityKind::from_number(9), None);
    }

    #[test]
    fn precedence_is_the_order() {
        assert!(ActivityKind::ALL.is_sorted());
    }
}
