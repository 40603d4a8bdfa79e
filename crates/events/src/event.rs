//! The event stream. One stream carries a whole run: while it is measured, in a recording, and when
//! the recording is replayed.

use serde::{Deserialize, Serialize};

use crate::{
    Activation, Activity, Anchor, FeedTotals, Gap, HostFrame, InterferenceCounts, Source, Vcpu,
    VcpuClock, VcpuExit, VcpuInterval, VcpuTotals,
};

/// One message of the stream. The result of `explain` depends only on the messages and their order.
/// So a replayed recording gives the same result as the live run.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Defines a [`Source`] before its first use.
    Source(Source),
    /// A time in which the workload did not have its CPU.
    Gap(Gap),
    /// Work that a kernel did.
    Activity(Activity),
    /// A wake-up of a periodic task.
    Activation(Activation),
    /// A simultaneous reading of the TSC and CLOCK_MONOTONIC.
    Anchor(Anchor),
    /// Counters of one CPU, cumulative since its workload started.
    Tally(CpuTally),
    /// Number of lost records, cumulative since start.
    Loss(Loss),
    /// CPU time of our own BPF programs, cumulative since start.
    OwnCost(OwnCost),
    /// Watermark in CLOCK_MONOTONIC nanoseconds. Every event that follows in the stream is later
    /// than this instant. An earlier event that is missing by now is lost.
    Watermark(u64),
    /// Defines a [`Vcpu`] before its first use, or replaces the definition.
    Vcpu(Vcpu),
    /// Relation of a vCPU's guest clock to this host's clock.
    VcpuClock(VcpuClock),
    /// One exit: a vCPU left its guest and has returned to the guest.
    Exit(VcpuExit),
    /// An interval in which a vCPU's thread did not run its guest.
    VcpuInterval(VcpuInterval),
    /// Totals of all exits of a vCPU.
    VcpuTotals(VcpuTotals),
    /// A report of this guest's host about one of its vCPUs.
    HostFrame(HostFrame),
    /// Totals of the feed that the guest reads from its host, cumulative since start.
    FeedTotals(FeedTotals),
    /// Last event of a run that ended in order. A recording without this event was cut off.
    Finish(Finish),
}

/// Counters of one measured CPU, cumulative since start. `None` means unknown, never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuTally {
    /// The CPU.
    pub cpu: u32,
    /// First reading of the workload's clock, in TSC cycles. For an observed thread: the start of
    /// the run.
    pub first_tsc: u64,
    /// Latest reading of the workload's clock, in TSC cycles. An unfinished gap starts after this
    /// reading. For an observed thread: the start of the interval in which the thread is off the
    /// CPU now, or the present if the thread runs.
    pub last_tsc: u64,
    /// Cycles between `first_tsc` and `last_tsc` in which the workload did not measure. The
    /// workload was recording a gap or pausing, or an observed thread slept or was on another CPU.
    pub blind_tsc: Option<u64>,
    /// Advance of the steal clock that the workload reads, in nanoseconds.
    pub steal_clock_ns: Option<u64>,
    /// Number of times that the hypervisor reloaded the vCPU (`version` of the steal clock / 2).
    pub reloads: Option<u64>,
    /// Number of exits that the host kernel handled.
    pub light_exits: Option<u64>,
    /// Number of exits that the VMM handled.
    pub heavy_exits: Option<u64>,
    /// Number of all exits according to KVM's per-vCPU statistics. This number checks `light_exits`
    /// and `heavy_exits`.
    pub kvm_stat_exits: Option<u64>,
    /// Advance of the steal clock that this machine gets from its own hypervisor for the measured
    /// CPU, in nanoseconds. It is an upper bound on the time that an outer host's scheduler took.
    pub outer_steal_ns: Option<u64>,
    /// Number of system management interrupts of the CPU (MSR_SMI_COUNT).
    pub smi_count: Option<u64>,
    /// Numbers of interferences while the workload polled. They include interferences in gaps below
    /// the threshold, and interferences while the workload recorded a gap.
    pub interference: Option<InterferenceCounts>,
    /// Number of posted interrupts of the CPU; `None` if they were not counted.
    pub posted: Option<PostedInterrupts>,
}

/// Number of posted interrupts (`PIN`, `NPI` and `PIW` of /proc/interrupts) of a CPU since its
/// start, and the time of the reading. No tracepoint reports posted interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostedInterrupts {
    /// Number of posted interrupts of all three kinds.
    pub count: u64,
    /// Time at which the reading began, CLOCK_MONOTONIC in nanoseconds. `count` includes every
    /// earlier interrupt.
    pub from_mono_ns: u64,
    /// Time at which the reading ended, CLOCK_MONOTONIC in nanoseconds. `count` includes no later
    /// interrupt.
    pub until_mono_ns: u64,
}

/// Kind of record that was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum LossKind {
    /// Activities that did not fit in the ring buffer.
    RingFull = 0,
    /// Events that a BPF program missed because a BPF program was already running on that CPU.
    Recursion = 1,
    /// Gaps that did not fit in the workload's mailbox.
    MailboxFull = 2,
    /// Starts of activities without an end, or ends without a start.
    Unpaired = 3,
    /// Records that could not be decoded.
    Undecodable = 4,
    /// vCPUs that did not fit in the table of vCPUs. None of their exits are counted.
    VcpusFull = 5,
    /// Events that are in the result of the run but not in its recording, because the disk was too
    /// slow.
    Unrecorded = 6,
}

impl LossKind {
    /// Every kind, ordered by its number in recordings.
    pub const ALL: [LossKind; 7] = [
        LossKind::RingFull,
        LossKind::Recursion,
        LossKind::MailboxFull,
        LossKind::Unpaired,
        LossKind::Undecodable,
        LossKind::VcpusFull,
        LossKind::Unrecorded,
    ];

    /// Returns the kind with this number, or `None` if this version does not know the number.
    pub fn from_number(number: u8) -> Option<LossKind> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns the word for this kind in results.
    pub const fn name(self) -> &'static str {
        match self {
            LossKind::RingFull => "ring_full",
            LossKind::Recursion => "recursion",
            LossKind::MailboxFull => "mailbox_full",
            LossKind::Unpaired => "unpaired",
            LossKind::Undecodable => "undecodable",
            LossKind::VcpusFull => "vcpus_full",
            LossKind::Unrecorded => "unrecorded",
        }
    }
}

/// A cumulative count of losses of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// Kind of the lost records.
    pub kind: LossKind,
    /// Number of lost records since start.
    pub count: u64,
}

/// CPU time of our own BPF programs, on all CPUs, as the programs measure it themselves. It
/// excludes runs that had nothing to do. It also excludes the kernel's own time to enter and leave
/// a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OwnCost {
    /// Number of runs of our programs.
    pub bpf_runs: u64,
    /// Total time of the BPF runs, in nanoseconds. It is extrapolated from those runs that were
    /// timed.
    pub bpf_ns: u64,
}

/// Reason why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum FinishReason {
    /// The planned duration had passed.
    Duration = 0,
    /// A gap, a latency or the noise of a period reached a limit of the `--stop` options.
    Stop = 1,
    /// The user asked for the result (Ctrl-C).
    Interrupt = 2,
    /// The workload ended by itself, too early.
    Failed = 3,
}

impl FinishReason {
    /// Every reason, ordered by its number in recordings.
    pub const ALL: [FinishReason; 4] = [
        FinishReason::Duration,
        FinishReason::Stop,
        FinishReason::Interrupt,
        FinishReason::Failed,
    ];

    /// Returns the reason with this number, or `None` if this version does not know the number.
    pub fn from_number(number: u8) -> Option<FinishReason> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// The last message of a run that ended in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finish {
    /// Reason for the end.
    pub reason: FinishReason,
    /// Time of the end, CLOCK_MONOTONIC in nanoseconds.
    pub mono_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every row of a recording is copied as an `Event`. For a copy of more than 256 bytes glibc
    /// needs twice as many instructions, because it then uses a loop. Before this loop it copies at
    /// most eight times 32 bytes.
    #[test]
    fn an_event_is_small() {
        assert!(size_of::<Event>() <= 256, "{}", size_of::<Event>());
    }
}
