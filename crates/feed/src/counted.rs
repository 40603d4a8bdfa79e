//! Converts the counts of a vCPU to a frame for its guest.

use vmnoise_events::{
    FeedDetail, HostCulprit, HostFrame, HostReason, Share, ShareMap, Vcpu, VcpuClock, VcpuTotals,
};

/// Instant at which counts were read, on the host's two clocks.
#[derive(Debug, Clone, Copy)]
pub struct CountsTime {
    /// Reading of the TSC.
    pub tsc: u64,
    /// CLOCK_MONOTONIC in nanoseconds at the same instant.
    pub mono_ns: u64,
    /// Frequency of the TSC, in cycles per second.
    pub tsc_hz: u64,
}

impl CountsTime {
    /// Returns the TSC at an instant close to this reading. `mono_ns` is CLOCK_MONOTONIC at that
    /// instant, in nanoseconds.
    pub fn tsc_at(&self, mono_ns: u64) -> u64 {
        let ns = i128::from(mono_ns) - i128::from(self.mono_ns);
        let cycles = ns.saturating_mul(self.tsc_hz.into()) / 1_000_000_000;
        u64::try_from(i128::from(self.tsc) + cycles).unwrap_or(0)
    }
}

/// Counts of one vCPU.
#[derive(Debug)]
pub struct VcpuReading<'a> {
    /// The vCPU.
    pub vcpu: &'a Vcpu,
    /// Exits of the vCPU so far.
    pub totals: &'a VcpuTotals,
    /// Relation of the guest's TSC to the host's.
    pub clock: VcpuClock,
    /// Instant up to which exits are counted, CLOCK_MONOTONIC in nanoseconds. Every exit that ended
    /// by then is counted, and no later exit.
    pub until_mono_ns: u64,
    /// Culprits that took time from the vCPU, the largest first.
    pub culprits: Vec<HostCulprit>,
}

/// Facts that all vCPUs of a run share.
#[derive(Debug, Clone, Copy)]
pub struct FeedFrame {
    /// Level of detail of the frames.
    pub detail: FeedDetail,
    /// Start of the counts, as a reading of the host's TSC.
    pub from_tsc: u64,
    /// Whether this host runs on bare metal, so that no time is hidden from the host.
    pub is_last: bool,
    /// Whether the rest of an exit is KVM's, because the host observes all of its own work.
    pub knows_kvm: bool,
    /// Number of records lost so far.
    pub lost: u64,
}

impl FeedFrame {
    /// Returns the frame of this vCPU. Returns `None` if the vCPU has no number, or if its guest
    /// has no TSC yet.
    pub fn of(&self, counted: VcpuReading<'_>, reading: &CountsTime) -> Option<HostFrame> {
        let VcpuReading {
            vcpu,
            totals,
            clock,
            until_mono_ns,
            culprits,
        } = counted;
        // A guest younger than the counts had no exits before its clock began.
        let from_tsc = clock.guest_tsc(self.from_tsc).unwrap_or(0);
        let until_tsc = clock.guest_tsc(reading.tsc_at(until_mono_ns))?;
        Some(HostFrame {
            vcpu: vcpu.number?,
            from_tsc: from_tsc.min(until_tsc),
            until_tsc,
            detail: self.detail,
            sees_kvm: vcpu.sees_kvm && self.knows_kvm,
            is_last: self.is_last,
            exits: totals.exits,
            heavy: totals.heavy,
            split: reported(totals.split, vcpu.sees_kvm && self.knows_kvm),
            // Lost records only make names incomplete, so the number matters only at full detail.
            // The number is the sum over all VMs.
            lost: match self.detail {
                FeedDetail::Full => self.lost,
                _ => 0,
            },
            reasons: match self.detail {
                FeedDetail::Counts => Vec::new(),
                _ => reasons(totals),
            },
            culprits: match self.detail {
                FeedDetail::Full => culprits,
                _ => Vec::new(),
            },
        })
    }
}

/// Sets the share `kvm` to 0 if exits are not observed. The rest of KVM_RUN then includes the
/// guest's own time.
fn reported(mut split: ShareMap<u64>, sees_kvm: bool) -> ShareMap<u64> {
    if !sees_kvm {
        split[Share::Kvm] = 0;
    }
    split
}

fn reasons(totals: &VcpuTotals) -> Vec<HostReason> {
    let mut reasons: Vec<HostReason> = totals
        .reasons
        .iter()
        .map(|reason| HostReason {
            name: reason.name().into_owned().into(),
            exits: reason.count,
            dur_ns: reason.split.total() - reason.split[Share::Halted],
        })
        .collect();
    reasons.sort_by(|a, b| b.dur_ns.cmp(&a.dur_ns).then_with(|| a.name.cmp(&b.name)));
    reasons
}
