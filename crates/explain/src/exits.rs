//! Totals of exits as results show them: by VM, vCPU and reason.

use std::collections::BTreeMap;

use serde::Serialize;
use vmnoise_events::{
    Exit, ExitFilter, ExitReason, ExitSplit, Name, ReasonTotals, Share, Vcpu, VcpuTotals, Witnesses,
};

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
    /// Its vCPUs.
    pub vcpus: Vec<VcpuExits>,
}

/// One vCPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VcpuExits {
    /// Its number in its VM; `None` where nothing told.
    pub vcpu: Option<u32>,
    /// Its thread.
    pub tid: u32,
    /// Exits, of either kind.
    pub exits: u64,
    /// Those handled in the host kernel; `None` where they are not seen (kvm_pvm).
    pub light: Option<u64>,
    /// Those that went to the VMM.
    pub heavy: u64,
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
    /// Where the rest went.
    #[serde(flatten)]
    pub taken: Taken,
}

impl VcpuTime {
    /// All of it, what nobody saw too.
    pub fn span_ns(&self) -> u64 {
        let taken = self.taken.parts().into_iter();
        self.guest + taken.filter_map(|(_, ns)| ns).sum::<u64>()
    }
}

/// [`ExitSplit`] where parts are unknown: those that had no witness, and KVM's own, which is what
/// remains. Without one of the others it is nobody's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[allow(
    missing_docs,
    reason = "the shares of ExitSplit, which says what they are"
)]
pub struct Taken {
    pub kvm: Option<u64>,
    pub vmm: u64,
    pub preempted: Option<u64>,
    pub blocked: Option<u64>,
    pub throttled: Option<u64>,
    pub host_irq: Option<u64>,
    pub host_softirq: Option<u64>,
    pub host_nmi: Option<u64>,
    pub halted: u64,
    /// What remains, where it could be the host's as well as KVM's; of a vCPU's time also what
    /// nobody saw, which may have been its guest's. `None` elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unexplained: Option<u64>,
    /// How much of that is what nobody saw. The rest is in exits that were seen.
    #[serde(skip)]
    pub unseen: u64,
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
    /// How many of them went to the VMM.
    pub heavy: u64,
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
    pub shares_ns: Taken,
    /// How many were no longer than each edge (nanoseconds) and longer than the one before.
    pub histogram: Vec<(u64, u64)>,
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
    pub shares_ns: Taken,
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
                vcpus: Vec::new(),
            });
        vm.vcpus.push(vcpu_exits(vcpu, totals, filter, witnesses));
    }
    let mut vms: Vec<VmExits> = vms.into_values().collect();
    for vm in &mut vms {
        vm.vcpus.sort_by_key(|vcpu| (vcpu.vcpu, vcpu.tid));
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
        vcpu: vcpu.number,
        tid: vcpu.tid,
        exits: totals.exits,
        light: has_kvm.then(|| totals.exits.saturating_sub(totals.heavy)),
        heavy: totals.heavy,
        time_ns: VcpuTime {
            guest: span_ns.saturating_sub(totals.split.total().saturating_add(totals.unseen_ns)),
            taken: Taken::of(&totals.split, has_kvm, witnesses).and_unseen(totals.unseen_ns),
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
        heavy: totals.heavy,
        total_ns,
        min_ns: totals.min_ns,
        mean_ns: total_ns.checked_div(totals.count).unwrap_or(0),
        p99_ns: quantile_ns(&totals.histogram, totals.count, 0.99),
        max_ns: totals.max_ns,
        shares_ns: Taken::of(&totals.split, has_kvm, witnesses),
        histogram: totals.histogram.clone(),
    }
}

fn worst_exit(exit: &Exit, has_kvm: bool, witnesses: &Witnesses) -> WorstExit {
    let shares_ns = Taken::of(&exit.split, has_kvm, witnesses);
    WorstExit {
        start_mono_ns: exit.start_mono_ns,
        dur_ns: exit.dur_ns(),
        reason: exit.reason.name().into(),
        code: exit.reason.code,
        exit_cpu: exit.exit_cpu,
        entry_cpu: exit.entry_cpu,
        overhead_ns: shares_ns.overhead_ns(),
        shares_ns,
    }
}

impl Taken {
    /// What is known of a split where exits handled in the host kernel are seen or not.
    pub fn of(split: &ExitSplit, has_kvm: bool, witnesses: &Witnesses) -> Taken {
        let if_seen = |seen: bool, ns: u64| seen.then_some(ns);
        let is_kvms = has_kvm && witnesses.see_kernel();
        Taken {
            kvm: if_seen(is_kvms, split.kvm),
            vmm: split.vmm,
            preempted: if_seen(witnesses.sched, split.preempted),
            blocked: if_seen(witnesses.sched, split.blocked),
            throttled: if_seen(witnesses.sched, split.throttled),
            host_irq: if_seen(witnesses.irq, split.host_irq),
            host_softirq: if_seen(witnesses.softirq, split.host_softirq),
            host_nmi: if_seen(witnesses.nmi, split.host_nmi),
            halted: split.halted,
            unexplained: if_seen(has_kvm && !is_kvms, split.kvm),
            unseen: 0,
        }
    }

    /// With time that nobody saw.
    fn and_unseen(self, unseen_ns: u64) -> Taken {
        let unexplained_ns = self.unexplained.unwrap_or(0).saturating_add(unseen_ns);
        Taken {
            unexplained: self
                .unexplained
                .or((unseen_ns > 0).then_some(0))
                .map(|_| unexplained_ns),
            unseen: self.unseen.saturating_add(unseen_ns),
            ..self
        }
    }

    /// What exits took that is noise, in nanoseconds: neither the sleep that the guest asked for nor
    /// what nobody saw, which may have been the guest's.
    pub fn noise_ns(&self) -> u64 {
        let parts = self.parts().into_iter();
        let noise = parts.filter(|(share, _)| *share != Share::Halted);
        let noise_ns = noise.filter_map(|(_, ns)| ns).sum::<u64>();
        noise_ns.saturating_sub(self.unseen)
    }

    /// What the thesis calls overhead, in nanoseconds: the time the vCPU's own thread had.
    pub fn overhead_ns(&self) -> Option<u64> {
        Some(self.kvm?.saturating_add(self.vmm))
    }

    /// Each share under its name, [`Share::Unexplained`] last.
    pub const fn parts(&self) -> [(Share, Option<u64>); 10] {
        [
            (Share::Kvm, self.kvm),
            (Share::Vmm, Some(self.vmm)),
            (Share::Preempted, self.preempted),
            (Share::Blocked, self.blocked),
            (Share::Throttled, self.throttled),
            (Share::HostIrq, self.host_irq),
            (Share::HostSoftirq, self.host_softirq),
            (Share::HostNmi, self.host_nmi),
            (Share::Halted, Some(self.halted)),
            (Share::Unexplained, self.unexplained),
        ]
    }
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
