//! Budget of one exit: the time of each share from the kernel's own sums, with the culprits from
//! the stream.

use std::cmp::Reverse;

use vmnoise_events::{Exit, Share, ShareMap, SourceId, Vcpu, VcpuId, Witnesses};

use super::overlay::Overlay;
use crate::exits::{exit_shares, whose};
use crate::part::{Part, add_up, largest_first};
use crate::usual_kvm::{KvmPart, Others};
use crate::visibility::share_of_host;

/// One explained exit. The `ns` of all parts add up to the length of the exit exactly. The parts of
/// one share add up to this share in the exit's split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExitBudget {
    /// The vCPU.
    pub vcpu: VcpuId,
    /// The exit. Its shares add up to its length.
    pub exit: Exit,
    /// Parts, largest first. A part without a source is the exit's own time (`kvm`, `vmm`,
    /// `halted`), or time whose activities were lost.
    pub parts: Vec<Part>,
    /// Time that activities claimed beyond the split, in nanoseconds. No part contains this time.
    pub clamped_ns: u64,
}

impl ExitBudget {
    /// Returns the parts as far as the probes of the run can show them. If KVM's part is unknown,
    /// `kvm` becomes `unexplained`.
    pub fn known_parts(&self, vcpu: &Vcpu, witnesses: &Witnesses) -> Vec<Part> {
        let known = exit_shares(&self.exit.split, vcpu.sees_kvm, witnesses);
        let parts = self.parts.iter().map(|part| Part {
            share: whose(part.share, &known),
            ..*part
        });
        parts.collect()
    }

    /// Returns the length without the sleep that the guest asked for, in nanoseconds.
    pub fn noise_ns(&self) -> u64 {
        noise_ns(&self.exit)
    }

    /// Returns the time of other work in the exit without a named culprit, in nanoseconds.
    pub fn unnamed_ns(&self) -> u64 {
        let unnamed = |part: &&Part| part.source.is_none() && part.share.is_of_others();
        self.parts.iter().filter(unnamed).map(|part| part.ns).sum()
    }

    /// Returns KVM's time in the exit, with the class of the exit. `reason` is a dense index of the
    /// exit's reason.
    pub(crate) fn kvm_part(&self, reason: usize) -> KvmPart {
        KvmPart {
            reason,
            heavy: self.exit.heavy,
            others: self.others(),
            ns: self.exit.split[Share::Kvm],
        }
    }

    fn others(&self) -> Others {
        let parts = self.exit.split.iter();
        let mut of_others = parts.filter(|(share, ns)| *ns > 0 && share.is_of_others());
        match (of_others.next(), of_others.next()) {
            (None, _) => Others::Nobody,
            (Some((Share::HostIrq, _)), None) if self.interrupts() == 1 => Others::OneInterrupt,
            _ => Others::More,
        }
    }

    fn interrupts(&self) -> u32 {
        let interrupts = self.parts.iter().filter(|it| it.share == Share::HostIrq);
        interrupts.fold(0, |sum, it| sum.saturating_add(it.count))
    }

    /// Returns the sum of interrupts, threads and overhead, in nanoseconds, as a reader can compute
    /// it from the thesis' trace. Time without a line in that trace is missing in the sum. Returns
    /// `None` if no work of the host fell into the exit, or if the overhead is unknown (`sees_kvm`
    /// is false).
    pub fn thesis_sum_ns(&self, sees_kvm: bool) -> Option<u64> {
        thesis_sum_ns(
            &self.exit,
            sees_kvm,
            self.parts
                .iter()
                .map(|part| (part.share, part.ns, part.count)),
        )
    }
}

pub(super) fn noise_ns(exit: &Exit) -> u64 {
    exit.dur_ns().saturating_sub(exit.split[Share::Halted])
}

/// Returns the sum as in the thesis: the overhead of the vCPU's thread, plus the time of activities
/// with a line in the thesis' trace.
pub(super) fn thesis_sum_ns(
    exit: &Exit,
    sees_kvm: bool,
    parts: impl Iterator<Item = (Share, u64, u32)>,
) -> Option<u64> {
    let of_host = parts.filter(|(share, _, count)| has_line(*share) && *count > 0);
    let reported_ns = of_host.map(|(_, ns, _)| ns).reduce(u64::saturating_add)?;
    sees_kvm.then(|| reported_ns.saturating_add(exit.overhead_ns()))
}

/// Returns whether the thesis' trace has lines for activities of this share.
fn has_line(share: Share) -> bool {
    share == Share::Preempted || Share::HOST_INTERRUPTS.contains(&share)
}

/// Makes the split add up to the length of the exit. `kvm` gets the time that no other share has.
/// If the other shares exceed the length, the largest of them are cut. Returns `false` if the split
/// had to be changed.
pub(super) fn fit(exit: &mut Exit) -> bool {
    let (split, dur_ns) = (exit.split, exit.dur_ns());
    if split.total() == dur_ns {
        return true;
    }
    let mut parts = split.select(Share::OF_EXITS).map(|(share, ns)| {
        let of_others = if share == Share::Kvm { 0 } else { ns };
        Part::of_nobody(share, of_others)
    });
    let kvm_ns = dur_ns.saturating_sub(cut_to(&mut parts, dur_ns));
    exit.split = ShareMap::from(parts.map(|part| (part.share, part.ns)));
    exit.split[Share::Kvm] = kvm_ns;
    false
}

/// Cuts the parts, largest first, until their sum is at most `limit_ns`; returns the sum.
fn cut_to(parts: &mut [Part], limit_ns: u64) -> u64 {
    let total = |parts: &[Part]| -> u128 { parts.iter().map(|part| u128::from(part.ns)).sum() };
    let mut excess = total(parts).saturating_sub(limit_ns.into());
    let mut by_size: Vec<&mut Part> = parts.iter_mut().collect();
    by_size.sort_by_key(|part| Reverse(part.ns));
    for part in by_size {
        let cut_ns = u64::try_from(excess).unwrap_or(u64::MAX).min(part.ns);
        part.ns -= cut_ns;
        excess -= u128::from(cut_ns);
    }
    u64::try_from(total(parts)).unwrap_or(u64::MAX)
}

/// Returns the budget of an exit whose split adds up to its length. `overlay` is the host's work
/// during the exit.
pub(super) fn budget(
    vcpu: VcpuId,
    exit: Exit,
    overlay: &Overlay,
    defined: impl Fn(SourceId) -> Option<SourceId>,
) -> ExitBudget {
    let of_activities = overlay.noise.iter().map(|(activity, ns)| {
        let share = share_of_host(activity.kind);
        Part::of_one(share, defined(activity.source), *ns)
    });
    let mut named: Vec<Part> = of_activities
        .chain(overlay.sleeps.iter().copied())
        .collect();
    named.retain(|part| part.source.is_some());
    add_up(&mut named);
    let reported_ns: u64 = named.iter().map(|part| part.ns).sum();

    let mut parts = Vec::with_capacity(named.len() + 4);
    for (share, ns) in exit.split.select(Share::OF_EXITS) {
        let first = named.partition_point(|part| part.share < share);
        let after = named.partition_point(|part| part.share <= share);
        let rest_ns = ns - cut_to(&mut named[first..after], ns);
        parts.extend_from_slice(&named[first..after]);
        parts.push(Part::of_nobody(share, rest_ns));
    }
    parts.retain(|part| part.ns > 0);
    let given_ns: u64 = named.iter().map(|part| part.ns).sum();
    largest_first(&mut parts);
    ExitBudget {
        vcpu,
        exit,
        parts,
        clamped_ns: reported_ns - given_ns,
    }
}
