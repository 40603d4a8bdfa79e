//! Totals of exits as results show them: by VM, vCPU and reason.

use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use vmnoise_events::{
    Exit, ExitFilter, ExitReason, Name, ReasonTotals, Share, ShareMap, Vcpu, VcpuId, VcpuTotals,
    VmIdentity, Witnesses,
};

use crate::visibility::host_sees;

/// Every VM that was seen.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExitsSummary {
    /// By the process of the VMM.
    pub vms: Vec<VmExits>,
}

/// One VM.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VmExits {
    /// The process of its VMM.
    pub vm: u32,
    /// What people call it.
    pub name: Name,
    /// What else is known of it.
    pub identity: VmIdentity,
    /// Its vCPUs.
    pub vcpus: Vec<VcpuExits>,
}

/// One vCPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VcpuExits {
    /// What the recording calls it. A thread that is another vCPU later has another one.
    #[serde(skip)]
    pub id: VcpuId,
    /// Its number in its VM; `None` where nothing said so.
    pub vcpu: Option<u32>,
    /// Its thread.
    pub tid: u32,
    /// Exits, of either kind.
    pub exits: u64,
    /// Those handled in the host kernel; `None` where they are not seen (kvm_pvm).
    pub light: Option<u64>,
    /// Those that went to the VMM; `None` where none is seen to.
    pub heavy: Option<u64>,
    /// Where its time went.
    pub time_ns: VcpuTime,
    /// By reason, the one that took most first.
    pub reasons: Vec<ReasonExits>,
    /// The longest exit, halts not counted; none if there was none.
    pub worst: Vec<WorstExit>,
}

/// Time of a vCPU in nanoseconds, from its first entry to its last: adds up to that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct VcpuTime {
    /// The guest ran.
    pub guest: u64,
    /// Where the rest went; `unexplained` holds also what nobody saw.
    #[serde(flatten, serialize_with = "as_json")]
    pub taken: ShareMap<Option<u64>>,
    /// What nobody saw: it may have been the guest's.
    #[serde(skip)]
    pub unseen: u64,
}

impl VcpuTime {
    /// All of it, what nobody saw too.
    pub fn span_ns(&self) -> u64 {
        self.guest.saturating_add(self.taken.total())
    }

    /// What exits took that is noise: neither the sleep that the guest asked for nor what nobody
    /// saw.
    pub fn noise_ns(&self) -> u64 {
        noise_ns(&self.taken).saturating_sub(self.unseen)
    }
}

/// Exits of a vCPU for one reason.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReasonExits {
    /// The name that the kernel and perf print.
    pub name: Name,
    /// The code of the hardware; `None` for all that found no place of their own.
    pub code: Option<u64>,
    /// How many.
    pub count: u64,
    /// How many of them went to the VMM; `None` where none is seen to.
    pub heavy: Option<u64>,
    /// How long, together.
    pub total_ns: u64,
    /// The shortest.
    pub min_ns: u64,
    /// On average.
    pub mean_ns: u64,
    /// 99 % were no longer, to a quarter of a power of two.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Where their time went: adds up to `total_ns`.
    #[serde(serialize_with = "as_json")]
    pub shares_ns: ShareMap<Option<u64>>,
    /// How many were no longer than each edge (nanoseconds) and longer than the one before.
    pub histogram: Vec<(u64, u64)>,
}

impl ReasonExits {
    /// How long they were together without the sleep that the guest asked for, in nanoseconds.
    pub fn noise_ns(&self) -> u64 {
        noise_ns(&self.shares_ns)
    }
}

/// One exit with its budget.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorstExit {
    /// Begin, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// Length in nanoseconds.
    pub dur_ns: u64,
    /// The name of its reason.
    pub reason: String,
    /// The code of its reason.
    pub code: u64,
    /// The CPU it left from.
    pub exit_cpu: u32,
    /// The CPU it returned on.
    pub entry_cpu: u32,
    /// What the thesis calls overhead: the time the vCPU's own thread spent on it.
    pub overhead_ns: Option<u64>,
    /// Where its time went: adds up to `dur_ns`.
    #[serde(serialize_with = "as_json")]
    pub shares_ns: ShareMap<Option<u64>>,
}

/// Sums up what was counted by these witnesses. A vCPU that was never seen to enter is left out.
pub fn summarize_exits<'a>(
    vcpus: impl IntoIterator<Item = (&'a Vcpu, &'a VcpuTotals)>,
    filter: &ExitFilter,
    witnesses: &Witnesses,
) -> ExitsSummary {
    let mut vms: BTreeMap<(u32, u64), VmExits> = BTreeMap::new();
    for (vcpu, totals) in vcpus {
        if !filter.takes_vcpu(vcpu) || totals.first_mono_ns == 0 {
            continue;
        }
        let vm = vms
            .entry((vcpu.vmm_pid, vcpu.vm))
            .or_insert_with(|| VmExits {
                vm: vcpu.vmm_pid,
                name: vcpu.vm_name.clone(),
                identity: vcpu.identity.clone(),
                vcpus: Vec::new(),
            });
        vm.vcpus.push(vcpu_exits(vcpu, totals, filter, witnesses));
    }
    let mut vms: Vec<VmExits> = vms.into_values().collect();
    for vm in &mut vms {
        vm.vcpus.sort_by_key(|vcpu| (vcpu.vcpu, vcpu.tid, vcpu.id));
    }
    ExitsSummary { vms }
}

fn vcpu_exits(
    vcpu: &Vcpu,
    totals: &VcpuTotals,
    filter: &ExitFilter,
    witnesses: &Witnesses,
) -> VcpuExits {
    let has_kvm = vcpu.sees_kvm;
    let span_ns = totals.last_mono_ns.saturating_sub(totals.first_mono_ns);
    let unseen_ns = totals.unseen_ns;
    let mut taken = exit_shares(&totals.split, has_kvm, witnesses);
    if unseen_ns > 0 {
        let unexplained_ns = taken[Share::Unexplained].unwrap_or(0);
        taken[Share::Unexplained] = Some(unexplained_ns.saturating_add(unseen_ns));
    }
    let mut reasons: Vec<ReasonExits> = totals
        .reasons
        .iter()
        .map(|totals| reason(totals, has_kvm, witnesses))
        .filter(|reason| filter.takes_reason(&reason.name))
        .collect();
    reasons.sort_by(|a, b| {
        b.total_ns
            .cmp(&a.total_ns)
            .then_with(|| a.name.cmp(&b.name))
    });
    let worst = totals
        .worst
        .as_ref()
        .map(|exit| worst_exit(exit, has_kvm, witnesses))
        .filter(|exit| filter.takes_reason(&exit.reason));
    VcpuExits {
        id: vcpu.id,
        vcpu: vcpu.number,
        tid: vcpu.tid,
        exits: totals.exits,
        light: has_kvm.then(|| totals.exits.saturating_sub(totals.heavy)),
        heavy: witnesses.kvm_run.then_some(totals.heavy),
        time_ns: VcpuTime {
            guest: span_ns.saturating_sub(totals.split.total().saturating_add(unseen_ns)),
            taken,
            unseen: unseen_ns,
        },
        reasons,
        worst: worst.into_iter().collect(),
    }
}

fn reason(totals: &ReasonTotals, has_kvm: bool, witnesses: &Witnesses) -> ReasonExits {
    let total_ns = totals.split.total();
    ReasonExits {
        name: totals.name().as_ref().into(),
        code: totals.reason.map(|ExitReason { code, .. }| code),
        count: totals.count,
        heavy: witnesses.kvm_run.then_some(totals.heavy),
        total_ns,
        min_ns: totals.min_ns,
        mean_ns: total_ns.checked_div(totals.count).unwrap_or(0),
        p99_ns: quantile_ns(&totals.histogram, totals.count, 0.99),
        max_ns: totals.max_ns,
        shares_ns: exit_shares(&totals.split, has_kvm, witnesses),
        histogram: totals.histogram.clone(),
    }
}

fn worst_exit(exit: &Exit, has_kvm: bool, witnesses: &Witnesses) -> WorstExit {
    let shares_ns = exit_shares(&exit.split, has_kvm, witnesses);
    WorstExit {
        start_mono_ns: exit.start_mono_ns,
        dur_ns: exit.dur_ns(),
        reason: exit.reason.name().into(),
        code: exit.reason.code,
        exit_cpu: exit.exit_cpu,
        entry_cpu: exit.entry_cpu,
        overhead_ns: overhead_ns(&shares_ns),
        shares_ns,
    }
}

/// What is known of a split, where exits handled in the host kernel are seen or not. Unknown are
/// parts that had no witness, and KVM's own, which is what remains: without one of the others it
/// is nobody's, and `unexplained` where it could be the host's as well as KVM's.
pub fn exit_shares(
    split: &ShareMap<u64>,
    has_kvm: bool,
    witnesses: &Witnesses,
) -> ShareMap<Option<u64>> {
    let is_kvms = has_kvm && witnesses.see_kernel();
    let mut shares = ShareMap::only(Share::OF_EXITS, |share| {
        let is_seen = match share {
            Share::Kvm => is_kvms,
            // KVM itself says so.
            Share::Halted => true,
            share => host_sees(share, witnesses),
        };
        is_seen.then_some(split[share])
    });
    // Where exits are reported of which KVM's part is not seen, it is in none of their times.
    let is_nobodys = has_kvm && !is_kvms || !witnesses.kvm_exit;
    shares[Share::Unexplained] = is_nobodys.then_some(split[Share::Kvm]);
    shares
}

/// What remains of an exit is KVM's where that is known, by what is known of its split.
pub(crate) fn whose(share: Share, known: &ShareMap<Option<u64>>) -> Share {
    match share {
        Share::Kvm if known[Share::Kvm].is_none() => Share::Unexplained,
        share => share,
    }
}

/// Without the sleep that the guest asked for.
fn noise_ns(shares: &ShareMap<Option<u64>>) -> u64 {
    let halted_ns = shares[Share::Halted].unwrap_or(0);
    shares.total().saturating_sub(halted_ns)
}

/// What the thesis calls overhead, in nanoseconds: the time the vCPU's own thread had.
pub(crate) fn overhead_ns(shares: &ShareMap<Option<u64>>) -> Option<u64> {
    shares.sum_of_all(&[Share::Kvm, Share::Vmm])
}

/// The shares that an exit can have, and `unexplained` where that is known.
pub(crate) fn as_json<S: Serializer>(
    shares: &ShareMap<Option<u64>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    for (share, ns) in shares.select(Share::OF_EXITS) {
        map.serialize_entry(share.name(), &ns)?;
    }
    if let Some(ns) = shares[Share::Unexplained] {
        map.serialize_entry(Share::Unexplained.name(), &ns)?;
    }
    map.end()
}

/// The edge at or below which this part of `count` lengths lies.
fn quantile_ns(histogram: &[(u64, u64)], count: u64, part: f64) -> u64 {
    let rank = (count as f64 * part).ceil() as u64;
    let mut seen = 0;
    histogram
        .iter()
        .find_map(|&(edge_ns, count)| {
            seen = count.saturating_add(seen);
            (seen >= rank).then_some(edge_ns)
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests;
