//! One stream carries a whole run: live, in a recording, and replayed.

use serde::{Deserialize, Serialize};

use crate::{
    Activation, Activity, Anchor, FeedTotals, Gap, HostFrame, InterferenceCounts, Source, Vcpu,
    VcpuClock, VcpuExit, VcpuInterval, VcpuTotals,
};

/// One message of the stream. `explain` is a pure function of the messages in
/// their order, so a replayed recording gives the same result as the live run.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Defines a [`Source`] before its first use.
    Source(Source),
    /// A hole observed by the workload.
    Gap(Gap),
    /// Something a kernel did.
    Activity(Activity),
    /// A periodic task woke up.
    Activation(Activation),
    /// A pair of clock readings.
    Anchor(Anchor),
    /// Counters of one CPU, cumulative since its workload started.
    Tally(Tally),
    /// Something was lost; counts are cumulative since start.
    Loss(Loss),
    /// What measuring has cost so far, cumulative since start.
    OwnCost(OwnCost),
    /// No event before this instant (CLOCK_MONOTONIC, ns) is still to come,
    /// unless it was lost.
    Watermark(u64),
    /// Defines a [`Vcpu`] before its first use, or anew.
    Vcpu(Vcpu),
    /// How the clock of a vCPU's guest follows from this host's.
    VcpuClock(VcpuClock),
    /// A vCPU left its guest and is back.
    Exit(VcpuExit),
    /// What kept a vCPU's thread from its guest.
    VcpuInterval(VcpuInterval),
    /// What the exits of a vCPU have come to.
    VcpuTotals(VcpuTotals),
    /// The host of this guest reported what it did with one of its vCPUs.
    HostFrame(HostFrame),
    /// What has come of the host's feed, cumulative since start.
    FeedTotals(FeedTotals),
    /// The run ended in order. A recording without it was cut off.
    Finish(Finish),
}

/// Counters of one measured CPU, cumulative. `None` is "not known here", never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// The CPU.
    pub cpu: u32,
    /// First reading of the workload's clock; of an observed thread, the begin of the run.
    pub first_tsc: u64,
    /// Latest reading of the workload's clock: a gap that is not over began after it. Of an
    /// observed thread, the begin of what keeps it off the CPU right now, or else now.
    pub last_tsc: u64,
    /// Cycles between the two that are no part of the runtime: the workload wrote gaps
    /// down and observed nothing, or an observed thread slept or was on another CPU.
    pub blind_tsc: Option<u64>,
    /// Advance of the steal clock the workload reads.
    pub steal_clock_ns: Option<u64>,
    /// Reloads of the vCPU by the hypervisor (`version` of the steal clock / 2).
    pub reloads: Option<u64>,
    /// Exits handled in the host kernel.
    pub light_exits: Option<u64>,
    /// Exits that went to the VMM.
    pub heavy_exits: Option<u64>,
    /// All exits by KVM's own per-vCPU statistics: the check on the two above.
    pub kvm_stat_exits: Option<u64>,
    /// Advance of the steal clock of the machine under the measured CPU: an upper
    /// bound on what an outer host's scheduler took.
    pub outer_steal_ns: Option<u64>,
    /// System management interrupts of the CPU (MSR_SMI_COUNT).
    pub smi_count: Option<u64>,
    /// Interferences while the workload polled, also those in gaps below the
    /// threshold and while it wrote gaps down.
    pub interference: Option<InterferenceCounts>,
    /// Posted interrupts that came to the CPU, where they were looked for.
    pub posted: Option<PostedInterrupts>,
}

/// How many posted interrupts (`PIN`, `NPI` and `PIW` of /proc/interrupts) had come to a CPU since it was started, and
/// when that was read. No tracepoint reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostedInterrupts {
    /// All of them.
    pub count: u64,
    /// The reading began, CLOCK_MONOTONIC in nanoseconds: every earlier one is counted.
    pub from_mono_ns: u64,
    /// The reading was over: no later one is counted.
    pub until_mono_ns: u64,
}

/// What kind of thing was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum LossKind {
    /// Activities that found no room in the ring buffer.
    RingFull = 0,
    /// Events a BPF program missed because it was already running on that CPU.
    Recursion = 1,
    /// Gaps that found no room in the workload's mailbox.
    MailboxFull = 2,
    /// Begins without an end, or ends without a begin.
    Unpaired = 3,
    /// Records that could not be decoded.
    Undecodable = 4,
    /// vCPUs that found no room in the table of vCPUs: nothing of them is counted.
    VcpusFull = 5,
    /// Events that are in the result of the run and not in this recording: its disk took
    /// less than was reported.
    Unrecorded = 6,
}

impl LossKind {
    /// Every kind, by its number in recordings.
    pub const ALL: [LossKind; 7] = [
        LossKind::RingFull,
        LossKind::Recursion,
        LossKind::MailboxFull,
        LossKind::Unpaired,
        LossKind::Undecodable,
        LossKind::VcpusFull,
        LossKind::Unrecorded,
    ];

    /// The kind with this number, or `None` for a number this version does not know.
    pub fn from_number(number: u8) -> Option<LossKind> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The word for it in results.
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
    /// What was lost.
    pub kind: LossKind,
    /// How many since start.
    pub count: u64,
}

/// Time spent by our own BPF programs, on all CPUs, as they time themselves: runs that
/// had nothing to do and the kernel's way in and out are not in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OwnCost {
    /// How often any of our programs ran.
    pub bpf_runs: u64,
    /// For how long in total: the runs that are timed stand for all.
    pub bpf_ns: u64,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum FinishReason {
    /// The duration was over.
    Duration = 0,
    /// A gap reached the `--stop` limit.
    Stop = 1,
    /// The user asked for the result (Ctrl-C).
    Interrupt = 2,
    /// The workload ended by itself before its time.
    Failed = 3,
}

impl FinishReason {
    /// Every reason, by its number in recordings.
    pub const ALL: [FinishReason; 4] = [
        FinishReason::Duration,
        FinishReason::Stop,
        FinishReason::Interrupt,
        FinishReason::Failed,
    ];

    /// The reason with this number, or `None` for a number this version does not know.
    pub fn from_number(number: u8) -> Option<FinishReason> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// The last message of a run that ended in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finish {
    /// Why it ended.
    pub reason: FinishReason,
    /// When, CLOCK_MONOTONIC in nanoseconds.
    pub mono_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every row of a recording is moved about as one of these, and copying more than 256 bytes takes glibc twice
    /// as many instructions (the last step before its loop copies eight times 32).
    #[test]
    fn an_event_is_small() {
        assert!(size_of::<Event>() <= 256, "{}", size_of::<Event>());
    }
}
