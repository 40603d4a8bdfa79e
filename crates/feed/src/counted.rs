//! What one guest is told of one of its vCPUs.

use vmnoise_events::{
    FeedDetail, HostCulprit, HostFrame, HostReason, Share, ShareMap, Vcpu, VcpuClock, VcpuTotals,
};

/// When counts were read, on the host's two clocks.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// The TSC.
    pub tsc: u64,
    /// CLOCK_MONOTONIC in nanoseconds at the same instant.
    pub mono_ns: u64,
    /// Cycles per second.
    pub tsc_hz: u64,
}

impl Reading {
    /// The TSC at an instant close to this one, CLOCK_MONOTONIC in nanoseconds.
    pub fn tsc_at(&self, mono_ns: u64) -> u64 {
        let ns = i128::from(mono_ns) - i128::from(self.mono_ns);
        let cycles = ns.saturating_mul(self.tsc_hz.into()) / 1_000_000_000;
        u64::try_from(i128::from(self.tsc) + cycles).unwrap_or(0)
    }
}

/// One vCPU as it was read.
#[derive(Debug)]
pub struct Counted<'a> {
    /// Whose.
    pub vcpu: &'a Vcpu,
    /// Its exits so far.
    pub totals: &'a VcpuTotals,
    /// How its guest's TSC follows from the host's.
    pub clock: VcpuClock,
    /// Every exit that ended by then is counted, and no later one, CLOCK_MONOTONIC in
    /// nanoseconds.
    pub until_mono_ns: u64,
    /// Who took its time, the most expensive first.
    pub culprits: Vec<HostCulprit>,
}

/// What is the same for all vCPUs of a run.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    /// How much is reported.
    pub detail: FeedDetail,
    /// When counting began, in the host's TSC.
    pub from_tsc: u64,
    /// Whether this host is on bare metal, and hides nothing from itself.
    pub is_last: bool,
    /// Whether what remains of an exit is KVM's: the host sees all of its own work.
    pub knows_kvm: bool,
    /// Records lost so far.
    pub lost: u64,
}

impl Frame {
    /// The frame of this vCPU; `None` where it has no number or its guest no TSC yet.
    pub fn of(&self, counted: Counted<'_>, reading: &Reading) -> Option<HostFrame> {
        let Counted {
            vcpu,
            totals,
            clock,
            until_mono_ns,
            culprits,
        } = counted;
        // A guest younger than the count had no exits before its clock began.
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
            // Names alone can be missing, and the number is of all VMs together.
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

/// What remains of KVM_RUN is the guest's as well, where its exits are not seen.
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
