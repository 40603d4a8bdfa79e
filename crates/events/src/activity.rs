//! What a kernel says it did while a workload was away.

use serde::{Deserialize, Serialize};

use crate::Name;

/// What kind of work took the CPU. The order is the order of precedence: where
/// two activities overlap, the later variant owns the time, which is what makes
/// every share net (NMI > IRQ > softirq > thread, and host work inside a vmexit).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum ActivityKind {
    /// A vmexit, from `kvm_exit` to `kvm_entry`.
    Exit = 0,
    /// The vCPU thread was outside KVM_RUN: the VMM's time.
    Vmm = 1,
    /// The workload was runnable, off the CPU, and the idle task ran.
    Throttled = 2,
    /// Another task ran on this CPU.
    Thread = 3,
    /// The workload's thread slept; the source is who woke it.
    Blocked = 4,
    /// A soft interrupt ran.
    Softirq = 5,
    /// An interrupt handler ran.
    Irq = 6,
    /// A non-maskable interrupt handler ran.
    Nmi = 7,
    /// The workload's thread was stopped (SIGSTOP, Ctrl-Z) or held by a debugger: nobody
    /// measured.
    Stopped = 8,
}

impl ActivityKind {
    /// Every kind, by its number in recordings.
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

    /// The kind with this number, or `None` for a number this version does not know.
    pub fn from_number(number: u8) -> Option<ActivityKind> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether the kernel's counter of interference counts it: an NMI, an interrupt, a soft interrupt or
    /// another task. All else is a state of the workload's thread.
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

    /// The number of this kind in recordings and on the wire from BPF.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// Refers to a [`Source`] defined earlier in the same event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SourceId(pub u32);

/// Who was active, in the notation of the kernel's osnoise tracer:
/// `local_timer:236` (interrupt:vector), `NET_RX:3` (softirq:number), `comm:pid`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Ids are given out in order from 0, without holes.
    pub id: SourceId,
    /// The label that results print.
    pub name: Name,
}

/// One interval in which a kernel did something on one CPU. Intervals may
/// overlap and nest; [`ActivityKind`] says who owns the overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// Host CPU on which it ran.
    pub cpu: u32,
    /// What kind of work it was.
    pub kind: ActivityKind,
    /// Begin, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// End, CLOCK_MONOTONIC in nanoseconds. An end before its begin is a defect
    /// of the stream; such an activity explains nothing.
    pub end_mono_ns: u64,
    /// Who it was.
    pub source: SourceId,
    /// How far this kernel's own steal clock advanced between begin and end, nested
    /// activities included: time that nobody here had. It says nothing unless the
    /// run's [`crate::Witnesses::activity_steal`] holds.
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
