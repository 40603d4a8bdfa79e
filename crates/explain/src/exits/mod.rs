//! Totals of exits for results: by VM, vCPU and reason.

use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use vmnoise_events::{
    Exit, ExitFilter, ExitReason, Name, ReasonTotals, Share, ShareMap, Vcpu, VcpuId, VcpuTotals,
    VmIdentity, Witnesses,
};

use crate::visibility::host_sees;

/// Exits of every VM that was seen.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExitsSummary {
    /// VMs, ordered by process id of the VMM.
    pub vms: Vec<VmExits>,
}

/// Exits of one VM.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VmExits {
    /// Process id of the VMM.
    pub vm: u32,
    /// Name of the VM for people.
    pub name: Name,
    /// Other facts that identify the VM.
    pub identity: VmIdentity,
    /// vCPUs of the VM.
    pub vcpus: Vec<VcpuExits>,
}

/// Exits of one vCPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VcpuExits {
    /// Id of the vCPU in the recording. A thread that later becomes another vCPU gets another id.
    #[serde(skip)]
    pub id: VcpuId,
    /// Number of the vCPU in its VM; `None` if unknown.
    pub vcpu: Option<u32>,
    /// Thread id of the vCPU.
    pub tid: u32,
    /// Number of all exits, light and heavy.
    pub exits: u64,
    /// Number of exits that the host's kernel handled; `None` if no probe shows these exits
    /// (kvm_pvm).
    pub light: Option<u64>,
    /// Number of exits that went to the VMM; `None` if no probe shows these exits.
    pub heavy: Option<u64>,
    /// Time of the vCPU, divided by use.
    pub time_ns: VcpuTime,
    /// Exits by reason, the largest total time first.
    pub reasons: Vec<ReasonExits>,
    /// The longest exit except for halts; empty if there was no such exit.
    pub worst: Vec<WorstExit>,
}

/// Time of a vCPU in nanoseconds, from its first to its last guest entry. The fields add up to this
/// span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct VcpuTime {
    /// Time in the guest.
    pub guest: u64,
    /// Time outside the guest by share; `unexplained` includes unobserved time.
    #[serde(flatten, serialize_with = "as_json")]
    pub taken: ShareMap<Option<u64>>,
    /// Unobserved time, which may belong to the guest.
    #[serde(skip)]
    pub unseen: u64,
}

impl VcpuTime {
    /// Returns the whole span, including unobserved time.
    pub fn span_ns(&self) -> u64 {
        self.guest.saturating_add(self.taken.total())
    }

    /// Returns the noise in nanoseconds: time in exits, without the sleep that the guest asked for
    /// and without unobserved time.
    pub fn noise_ns(&self) -> u64 {
        noise_ns(&self.taken).saturating_sub(self.unseen)
    }
}

/// Exits of a vCPU for one reason.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReasonExits {
    /// Name of the reason, as the kernel and perf print it.
    pub name: Name,
    /// Code of the reason in the hardware; `None` for the sum of all exits whose reasons did not
    /// fit in the table.
    pub code: Option<u64>,
    /// Number of exits.
    pub count: u64,
    /// Number of exits that went to the VMM; `None` if no probe shows these exits.
    pub heavy: Option<u64>,
    /// Total length of these exits, in nanoseconds.
    pub total_ns: u64,
    /// Minimum length, in nanoseconds.
    pub min_ns: u64,
    /// Mean length, in nanoseconds.
    pub mean_ns: u64,
    /// 99th percentile of the lengths in nanoseconds, with a resolution of a quarter of a power of
    /// two.
    pub p99_ns: u64,
    /// Maximum length, in nanoseconds.
    pub max_ns: u64,
    /// Time by share, in nanoseconds; the shares add up to `total_ns`.
    #[serde(serialize_with = "as_json")]
    pub shares_ns: ShareMap<Option<u64>>,
    /// Histogram of the lengths: the upper edge of each bucket in nanoseconds, and the number of
    /// exits in this bucket.
    pub histogram: Vec<(u64, u64)>,
}

impl ReasonExits {
    /// Returns the total length without the sleep that the guest asked for, in nanoseconds.
    pub fn noise_ns(&self) -> u64 {
        noise_ns(&self.shares_ns)
    }
}

/// One exit with its time by share.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorstExit {
    /// Start, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// Length in nanoseconds.
    pub dur_ns: u64,
    /// Name of the exit's reason.
    pub reason: String,
    /// Code of the exit's reason.
    pub code: u64,
    /// Host CPU on which the vCPU left its guest.
    pub exit_cpu: u32,
    /// Host CPU on which the vCPU returned to its guest.
    pub entry_cpu: u32,
    /// Overhead as the thesis defines it: the time that the vCPU's own thread spent on the exit, in
    /// nanoseconds. `None` if a part of this time is unknown.
    pub overhead_ns: Option<u64>,
    /// Time by share, in nanoseconds; the shares add up to `dur_ns`.
    #[serde(serialize_with = "as_json")]
    pub shares_ns: ShareMap<Option<u64>>,
}

/// Adds up the totals of vCPUs by VM. `witnesses` decide which values are known. A vCPU that never
/// entered its guest is left out.
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

/// Returns the time of exits by share. A share is `None` if no probe sees it. `has_kvm` is true if
/// exits that the host's kernel handled are seen.
///
/// KVM's own share is the rest of an exit. If a probe of another share is missing, this rest
/// becomes `unexplained`, because it may belong to the host as well as to KVM.
pub fn exit_shares(
    split: &ShareMap<u64>,
    has_kvm: bool,
    witnesses: &Witnesses,
) -> ShareMap<Option<u64>> {
    let is_kvms = has_kvm && witnesses.see_kernel();
    let mut shares = ShareMap::only(Share::OF_EXITS, |share| {
        let is_seen = match share {
            Share::Kvm => is_kvms,
            // KVM itself reports halts.
            Share::Halted => true,
            share => host_sees(share, witnesses),
        };
        is_seen.then_some(split[share])
    });
    // If exits that KVM handled itself are not seen, the reported times do not include KVM's part.
    let is_nobodys = has_kvm && !is_kvms || !witnesses.kvm_exit;
    shares[Share::Unexplained] = is_nobodys.then_some(split[Share::Kvm]);
    shares
}

/// Returns the share under which a part of an exit is reported. KVM's share becomes `unexplained`
/// if `kvm` is unknown.
pub(crate) fn whose(share: Share, known: &ShareMap<Option<u64>>) -> Share {
    match share {
        Share::Kvm if known[Share::Kvm].is_none() => Share::Unexplained,
        share => share,
    }
}

/// Returns the sum of all shares without the sleep that the guest asked for, in nanoseconds.
fn noise_ns(shares: &ShareMap<Option<u64>>) -> u64 {
    let halted_ns = shares[Share::Halted].unwrap_or(0);
    shares.total().saturating_sub(halted_ns)
}

/// Returns the overhead as the thesis defines it: the time of the vCPU's own thread, in
/// nanoseconds.
pub(crate) fn overhead_ns(shares: &ShareMap<Option<u64>>) -> Option<u64> {
    shares.sum_of_all(&[Share::Kvm, Share::Vmm])
}

/// Serializes the shares that an exit can have, and `unexplained` if it is known.
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

/// Returns the smallest edge with at least this part of `count` lengths at or below the edge.
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
