//! Converts the numbers in the maps to totals with names. Pure: no I/O, no BPF, no clock.

use vmnoise_events::{Exit, ExitReason, Isa, ReasonTotals, Share, ShareMap, VcpuId, VcpuTotals};

use super::wire::{Globals, WireExit, WireReason, WireSplit, WireVcpu};

pub(super) fn vcpu(
    id: VcpuId,
    wire: &WireVcpu,
    reasons: &[WireReason],
    globals: &Globals,
    kvm_run_only: bool,
) -> VcpuTotals {
    let isa = isa(wire.isa);
    let worst = (wire.worst.end_mono_ns > 0).then(|| Box::new(exit(&wire.worst, isa)));
    VcpuTotals {
        vcpu: id,
        first_mono_ns: wire.first_mono_ns,
        last_mono_ns: wire.last_mono_ns,
        exits: reasons.iter().map(|totals| totals.count).sum(),
        heavy: reasons.iter().map(|totals| totals.heavy).sum(),
        split: whole_split(wire, reasons, kvm_run_only),
        unseen_ns: wire.unseen_ns,
        worst,
        reasons: by_reason(
            isa,
            &globals.code_of_reason,
            globals.reasons_known as usize,
            reasons,
        ),
    }
}

/// Returns the totals of each reason. `codes` has the code of each table slot, and `reasons` its
/// totals. `known` is the number of different codes so far. If there are more codes than slots, the
/// last slot has the sum of the rest.
fn by_reason(isa: Isa, codes: &[u64], known: usize, reasons: &[WireReason]) -> Vec<ReasonTotals> {
    let mut sums: Vec<SumOfReason> = Vec::new();
    let places = codes.iter().enumerate().zip(reasons);
    for ((place, &code), totals) in places.filter(|(_, totals)| totals.count > 0) {
        let is_shared = known > codes.len() && place + 1 == codes.len();
        let reason = (!is_shared).then(|| reason_of(isa, code));
        // A code that occurred on two CPUs at the same time may have two table slots.
        match sums.iter_mut().find(|sum| sum.reason == reason) {
            Some(sum) => sum.add(totals),
            None => sums.push(SumOfReason {
                reason,
                split: split(&totals.split, totals.total_ns),
                wire: *totals,
            }),
        }
    }
    sums.iter().map(SumOfReason::totals).collect()
}

/// Sum of all table slots with the same reason.
struct SumOfReason {
    reason: Option<ExitReason>,
    /// Sum of all values except `split`.
    wire: WireReason,
    split: ShareMap<u64>,
}

impl SumOfReason {
    fn add(&mut self, more: &WireReason) {
        let sum = &mut self.wire;
        sum.count += more.count;
        sum.heavy += more.heavy;
        sum.min_ns = sum.min_ns.min(more.min_ns);
        sum.max_ns = sum.max_ns.max(more.max_ns);
        for (bucket, more) in sum.buckets.iter_mut().zip(&more.buckets) {
            *bucket = bucket.saturating_add(*more);
        }
        self.split += split(&more.split, more.total_ns);
    }

    fn totals(&self) -> ReasonTotals {
        let wire = &self.wire;
        let buckets = wire.buckets.iter().enumerate();
        ReasonTotals {
            reason: self.reason,
            count: wire.count,
            heavy: wire.heavy,
            min_ns: wire.min_ns,
            max_ns: wire.max_ns,
            split: self.split,
            histogram: buckets
                .filter(|&(_, &count)| count > 0)
                .map(|(bucket, &count)| (upper_edge_ns(bucket).min(wire.max_ns), count.into()))
                .collect(),
        }
    }
}

/// Bit of the exit reason that VMX sets if the guest took a bus lock before the exit (Intel SDM,
/// volume 3, "basic VM-exit information"). It does not change the meaning of the other bits.
const VMX_BUS_LOCK: u64 = 1 << 26;

fn reason_of(isa: Isa, code: u64) -> ExitReason {
    let code = match isa {
        Isa::Vmx => code & !VMX_BUS_LOCK,
        _ => code,
    };
    ExitReason { isa, code }
}

/// Returns the split of the whole time off the guest. It is the sum of the splits of all reasons
/// and, under kvm_pvm, of the time inside KVM_RUN.
fn whole_split(wire: &WireVcpu, reasons: &[WireReason], kvm_run_only: bool) -> ShareMap<u64> {
    // Time before the vCPU was first seen is not counted.
    let is_outside = wire.in_exit != 0 || wire.left != 0;
    let is_inside = kvm_run_only && !is_outside && wire.first_mono_ns > 0;
    let mut whole = split(&wire.inside_run, wire.inside_run_ns);
    if is_inside {
        whole += since_kvm_run(wire);
    }
    for totals in reasons {
        whole += split(&totals.split, totals.total_ns);
    }
    whole
}

/// Returns the split of the current KVM_RUN so far. It leaves out sleeps that may still turn out to
/// be halts.
fn since_kvm_run(wire: &WireVcpu) -> ShareMap<u64> {
    let (now, slept) = (&wire.now.split, &wire.slept);
    let undecided_ns = slept.blocked_ns + slept.work.irq_ns + slept.work.softirq_ns;
    let decided = WireSplit {
        blocked_ns: now.blocked_ns.saturating_sub(slept.blocked_ns),
        host_irq_ns: now.host_irq_ns.saturating_sub(slept.work.irq_ns),
        host_softirq_ns: now.host_softirq_ns.saturating_sub(slept.work.softirq_ns),
        host_nmi_ns: now.host_nmi_ns.saturating_sub(slept.work.nmi_ns),
        ..*now
    };
    let taken_ns = wire.taken.saturating_sub(undecided_ns + slept.work.nmi_ns);
    split(&decided, taken_ns)
}

/// Returns the vendor by KVM's number on x86. If no exit was reported, returns [`Isa::KvmRun`].
pub(super) fn isa(wire: u32) -> Isa {
    Isa::of_kvm_exit(wire).unwrap_or(Isa::KvmRun)
}

pub(super) fn exit(wire: &WireExit, isa: Isa) -> Exit {
    let dur_ns = wire.end_mono_ns.saturating_sub(wire.start_mono_ns);
    Exit {
        start_mono_ns: wire.start_mono_ns,
        end_mono_ns: wire.start_mono_ns + dur_ns,
        reason: reason_of(isa, wire.code),
        exit_cpu: wire.exit_cpu,
        entry_cpu: wire.entry_cpu,
        heavy: wire.heavy != 0,
        split: split(&wire.split, dur_ns),
    }
}

/// Returns the split of exits. The kernel counts the time of all other shares. The rest of
/// `total_ns` is KVM's share.
fn split(wire: &WireSplit, total_ns: u64) -> ShareMap<u64> {
    // Lists all fields, so that the compiler reports a missing field.
    let WireSplit {
        vmm_ns,
        preempted_ns,
        blocked_ns,
        throttled_ns,
        host_irq_ns,
        host_softirq_ns,
        host_nmi_ns,
        halted_ns,
    } = *wire;
    let mut split = ShareMap::from([
        (Share::Vmm, vmm_ns),
        (Share::Preempted, preempted_ns),
        (Share::Blocked, blocked_ns),
        (Share::Throttled, throttled_ns),
        (Share::HostIrq, host_irq_ns),
        (Share::HostSoftirq, host_softirq_ns),
        (Share::HostNmi, host_nmi_ns),
        (Share::Halted, halted_ns),
    ]);
    split[Share::Kvm] = total_ns.saturating_sub(split.total());
    split
}

/// Returns the largest length in this bucket, in ns. This is the inverse of the function in
/// `bpf/exits_buckets.bpf.h`.
fn upper_edge_ns(bucket: usize) -> u64 {
    let (power, quarter) = (bucket / 4, bucket as u64 % 4);
    if power < 2 {
        return bucket as u64;
    }
    if bucket == 127 {
        return u64::MAX;
    }
    (1 << power) + ((quarter + 1) << (power - 2)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_reason_is_one_row_whatever_places_it_was_given() {
        let totals = |ns: u64| {
            let mut wire = WireReason {
                count: 1,
                heavy: 1,
                total_ns: ns,
                min_ns: ns,
                max_ns: ns,
                ..WireReason::default()
            };
            wire.split.vmm_ns = 10;
            wire.buckets[40] = 1;
            wire
        };
        let codes = [30, 1, 30 | 1 << 26, 0];
        let reasons = [
            totals(1_100),
            totals(1_200),
            totals(1_270),
            WireReason::default(),
        ];
        let rows = by_reason(Isa::Vmx, &codes, 3, &reasons);
        let names = rows.iter().map(ReasonTotals::name);
        assert_eq!(
            names.collect::<Vec<_>>(),
            ["IO_INSTRUCTION", "EXTERNAL_INTERRUPT"]
        );
        let io = &rows[0];
        assert_eq!(
            (io.count, io.heavy, io.min_ns, io.max_ns),
            (2, 2, 1_100, 1_270)
        );
        assert_eq!((io.split[Share::Vmm], io.split[Share::Kvm]), (20, 2_350));
        assert_eq!(io.histogram, [(1_270, 2)]);
    }

    #[test]
    fn edges_ascend_by_quarters_of_a_power_of_two() {
        let edges: Vec<u64> = (8..127).map(upper_edge_ns).collect();
        assert!(edges.is_sorted_by(|a, b| a < b));
        assert_eq!(edges[..5], [4, 5, 6, 7, 9]);
        assert_eq!(upper_edge_ns(40), 1279);
    }
}
