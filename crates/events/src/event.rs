//! The event stream: one stream carries a whole run, live, in a recording and replayed.

use serde::{Deserialize, Serialize};

use crate::{
    Activation, Activity, Anchor, FeedTotals, Gap, HostFrame, InterferenceCounts, Source, Vcpu,
    VcpuClock, VcpuExit, VcpuInterval, VcpuTotals,
};

/// One message of the stream. `explain` is a pure function of the messages in their order, so a
/// replayed recording gives the same result as the live run.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Defines a [`Source`] before its first use.
    Source(Source),
    /// A gap: a time in which the workload did not have its CPU.
    Gap(Gap),
    /// Work that a kernel did.
    Activity(Activity),
    /// A periodic task woke up.
    Activation(Activation),
    /// A pair of clock readings.
    Anchor(Anchor),
    /// Counters of one CPU, cumulative since its workload started.
    Tally(CpuTally),
    /// Records were lost; counts are cumulative since start.
    Loss(Loss),
    /// Cost of measuring, cumulative since start.
    OwnCost(OwnCost),
    /// Watermark: every later event in the stream is after this instant (CLOCK_MONOTONIC, ns).
    /// Earlier events that are missing were lost.
    Watermark(u64),
    /// Defines a [`Vcpu`] before its first use, or defines it again.
    Vcpu(Vcpu),
    /// Relation of a vCPU's guest clock to this host's clock.
    VcpuClock(VcpuClock),
    /// One exit: a vCPU left its guest and has returned to the guest.
    Exit(VcpuExit),
    /// An interval in which a vCPU's thread was kept from its guest.
    VcpuInterval(VcpuInterval),
    /// Totals of a vCPU's exits.
    VcpuTotals(VcpuTotals),
    /// A report of this guest's host about one of its vCPUs.
    HostFrame(HostFrame),
    /// Totals of the host's feed, cumulative since start.
    FeedTotals(FeedTotals),
    /// The run ended in order. A recording without this event was cut off.
    Finish(Finish),
}

/// Counters of one measured CPU, cumulative. `None` is unknown, never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuTally {
    /// The CPU.
    pub cpu: u32,
    /// First reading of the workload's clock. For an observed thread: the start of the run.
    pub first_tsc: u64,
    /// Latest reading of the workload's clock; an unfinished gap starts after it. For an observed
    /// thread: the start of the interval that keeps it off the CPU right now, or else now.
    pub last_tsc: u64,
    /// Cycles between the two readings that do not belong to the runtime. The workload recorded
    /// gaps and observed nothing, or an observed thread slept or was on another CPU.
    pub blind_tsc: Option<u64>,
    /// Advance of the steal clock that the workload reads.
    pub steal_clock_ns: Option<u64>,
    /// Reloads of the vCPU by the hypervisor (`version` of the steal clock / 2).
    pub reloads: Option<u64>,
    /// Exits handled in the host kernel.
    pub light_exits: Option<u64>,
    /// Exits that went to the VMM.
    pub heavy_exits: Option<u64>,
    /// All exits according to KVM's own per-vCPU statistics; checks the two counts above.
    pub kvm_stat_exits: Option<u64>,
    /// Advance of the steal clock of the machine under the measured CPU: an upper bound on the time
    /// that an outer host's scheduler took.
    pub outer_steal_ns: Option<u64>,
    /// System management interrupts of the CPU (MSR_SMI_COUNT).
    pub smi_count: Option<u64>,
    /// Interferences while the workload polled. Includes gaps below the threshold and the time in
    /// which the workload recorded gaps.
    pub interference: Option<InterferenceCounts>,
    /// Posted interrupts that came to the CPU; `None` if they were not counted.
    pub posted: Option<PostedInterrupts>,
}

/// Number of posted interrupts (`PIN`, `NPI` and `PIW` of /proc/interrupts) that came to a CPU
/// since its start, and the time of the reading. No tracepoint reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostedInterrupts {
    /// Number of posted interrupts of all three kinds.
    pub count: u64,
    /// Start of the reading, CLOCK_MONOTONIC in nanoseconds. The count includes every earlier
    /// interrupt.
    pub from_mono_ns: u64,
    /// End of the reading. The count includes no later interrupt.
    pub until_mono_ns: u64,
}

/// Kind of record that was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum LossKind {
    /// Activities that did not fit in the ring buffer.
    RingFull = 0,
    /// Events that a BPF program missed because it was already running on that CPU.
    Recursion = 1,
    /// Gaps that did not fit in the workload's mailbox.
    MailboxFull = 2,
    /// Starts without an end, or ends without a start.
    Unpaired = 3,
    /// Records that could not be decoded.
    Undecodable = 4,
    /// vCPUs that did not fit in the table of vCPUs. None of their exits are counted.
    VcpusFull = 5,
    /// Events that are in the result of the run but not in this recording, because the disk of the
    /// recording was too slow.
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

/// Time spent by our own BPF programs, on all CPUs, as they time themselves. Excludes runs that had
/// nothing to do, and the kernel's entry to and exit from a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OwnCost {
    /// Number of runs of our programs.
    pub bpf_runs: u64,
    /// Total time of the BPF runs, in nanoseconds, extrapolated from the runs that were timed.
    pub bpf_ns: u64,
}

/// Reason why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum FinishReason {
    /// The planned duration had passed.
    Duration = 0,
    /// A gap reached the `--stop` limit.
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

    /// Every row of a recording is copied as an `Event`. A copy of more than 256 bytes takes glibc
    /// twice as many instructions: the last step before its loop copies eight times 32 bytes.
    #[test]
    fn an_event_is_small() {
        assert!(size_of::<Event>() <= 256, "{}", size_of::<Event>());
    }
}
