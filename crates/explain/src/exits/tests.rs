//! Tests the totals of exits with known sums, filters and names.

use super::*;
use vmnoise_events::{Isa, VcpuId};

fn counted(tid: u32, isa: Isa) -> (Vcpu, VcpuTotals) {
    let split = ShareMap::from([(Share::Kvm, 70), (Share::Vmm, 20), (Share::HostIrq, 10)]);
    let vcpu = Vcpu {
        id: VcpuId(tid),
        tid,
        vmm_pid: 9,
        number: (isa == Isa::Svm).then_some(tid - 10),
        vm: 1,
        vm_name: "web".into(),
        identity: Default::default(),
        sees_kvm: isa != Isa::KvmRun,
    };
    let totals = VcpuTotals {
        vcpu: VcpuId(tid),
        first_mono_ns: 1_000,
        last_mono_ns: 2_000,
        exits: 4,
        heavy: 1,
        split,
        unseen_ns: 0,
        worst: None,
        reasons: vec![ReasonTotals {
            reason: Some(ExitReason { isa, code: 0x72 }),
            count: 4,
            heavy: 1,
            min_ns: 10,
            max_ns: 50,
            split,
            histogram: vec![(11, 2), (23, 1), (50, 1)],
        }],
    };
    (vcpu, totals)
}

const ALL: Witnesses = Witnesses::OF_EXITS;

fn summarize(counted: &[(Vcpu, VcpuTotals)], filter: &ExitFilter) -> ExitsSummary {
    let counted = counted.iter().map(|(vcpu, totals)| (vcpu, totals));
    summarize_exits(counted, filter, &ALL)
}

#[test]
fn time_adds_up_to_the_span() {
    let counted = [counted(11, Isa::Svm), counted(10, Isa::Svm)];
    let summary = summarize(&counted, &ExitFilter::default());
    let vm = &summary.vms[0];
    assert_eq!((vm.vm, vm.name.as_str()), (9, "web"));
    let ids: Vec<_> = vm.vcpus.iter().map(|vcpu| vcpu.vcpu).collect();
    assert_eq!(ids, [Some(0), Some(1)]);
    let vcpu = &vm.vcpus[0];
    assert_eq!(
        (vcpu.time_ns.guest, vcpu.time_ns.taken[Share::Kvm]),
        (900, Some(70))
    );
    assert_eq!((vcpu.light, vcpu.heavy), (Some(3), Some(1)));
    let reason = &vcpu.reasons[0];
    assert_eq!(reason.name, "cpuid");
    assert_eq!((reason.mean_ns, reason.p99_ns, reason.max_ns), (25, 50, 50));
}

#[test]
fn what_nobody_saw_is_not_the_guests() {
    for (isa, kvm) in [(Isa::Svm, Some(70)), (Isa::KvmRun, None)] {
        let (vcpu, totals) = counted(11, isa);
        let totals = VcpuTotals {
            unseen_ns: 300,
            ..totals
        };
        let summary = summarize(&[(vcpu, totals)], &ExitFilter::default());
        let vcpu = &summary.vms[0].vcpus[0];
        assert_eq!(vcpu.time_ns.guest, 600);
        assert_eq!(vcpu.time_ns.taken[Share::Kvm], kvm);
        assert_eq!(vcpu.time_ns.taken[Share::Unexplained], Some(300));
        // Only exits that were seen from start to end are counted.
        assert_eq!(vcpu.reasons[0].shares_ns[Share::Unexplained], None);
    }
}

#[test]
fn what_nobody_saw_is_no_noise_and_what_an_exit_leaves_over_is() {
    let (vcpu, totals) = counted(11, Isa::Svm);
    let mut split = totals.split;
    split[Share::Halted] = 40;
    let totals = VcpuTotals {
        unseen_ns: 300,
        split,
        ..totals
    };
    let unwitnessed = Witnesses { irq: false, ..ALL };
    // The exit took 70 + 20 + 10 ns; the 10 ns of interrupts are unknown without a probe.
    for (witnesses, unexplained_ns, noise_ns) in [(ALL, 300, 100), (unwitnessed, 370, 90)] {
        let summary = summarize_exits([(&vcpu, &totals)], &ExitFilter::default(), &witnesses);
        let time = summary.vms[0].vcpus[0].time_ns;
        assert_eq!(time.taken[Share::Unexplained], Some(unexplained_ns));
        assert_eq!(time.noise_ns(), noise_ns);
        assert_eq!(time.span_ns(), 560 + noise_ns + 40 + 300);
    }
}

#[test]
fn what_kvm_pvm_does_not_report_is_unknown() {
    let summary = summarize(&[counted(11, Isa::KvmRun)], &ExitFilter::default());
    let vcpu = &summary.vms[0].vcpus[0];
    assert_eq!((vcpu.vcpu, vcpu.light), (None, None));
    assert_eq!(vcpu.time_ns.taken[Share::Kvm], None);
}

#[test]
fn what_had_no_witness_is_unknown_and_what_remains_is_nobodys() {
    let (vcpu, totals) = counted(11, Isa::Svm);
    let by = |witnesses: Witnesses| {
        let summary = summarize_exits([(&vcpu, &totals)], &ExitFilter::default(), &witnesses);
        let vcpu = &summary.vms[0].vcpus[0];
        assert_eq!(vcpu.reasons[0].shares_ns, vcpu.time_ns.taken);
        assert_eq!(vcpu.time_ns.guest, 900);
        vcpu.time_ns.taken
    };
    let all = by(ALL);
    assert_eq!((all[Share::Kvm], all[Share::Unexplained]), (Some(70), None));
    let unknown = |taken: ShareMap<Option<u64>>| -> Vec<Share> {
        let shares = Share::OF_EXITS.into_iter();
        shares.filter(|share| taken[*share].is_none()).collect()
    };
    use Share::{Blocked, HostIrq, HostNmi, HostSoftirq, Kvm, Preempted, Throttled};
    let cases: [(Witnesses, &[Share]); 4] = [
        (Witnesses { irq: false, ..ALL }, &[Kvm, HostIrq]),
        (
            Witnesses {
                softirq: false,
                ..ALL
            },
            &[Kvm, HostSoftirq],
        ),
        (Witnesses { nmi: false, ..ALL }, &[Kvm, HostNmi]),
        (
            Witnesses {
                sched: false,
                ..ALL
            },
            &[Kvm, Preempted, Blocked, Throttled],
        ),
    ];
    for (witnesses, shares) in cases {
        let taken = by(witnesses);
        assert_eq!(unknown(taken), shares);
        assert_eq!(
            (taken[Share::Unexplained], overhead_ns(&taken)),
            (Some(70), None)
        );
    }
}

#[test]
fn filters_choose_vm_vcpu_and_reason() {
    let all = [counted(10, Isa::Svm), counted(11, Isa::Svm)];
    let shown = |filter: ExitFilter| {
        let summary = summarize(&all, &filter);
        let vcpus: Vec<_> = summary
            .vms
            .iter()
            .flat_map(|vm| &vm.vcpus)
            .map(|vcpu| (vcpu.tid, vcpu.reasons.len()))
            .collect();
        vcpus
    };
    let vm = |name: &str| ExitFilter {
        vm: Some(name.into()),
        ..ExitFilter::default()
    };
    assert_eq!(shown(vm("9")).len(), 2);
    assert_eq!(shown(vm("web")).len(), 2);
    assert_eq!(shown(vm("10")).len(), 0);
    let vcpus = ExitFilter {
        vcpus: Some(vec![1]),
        ..ExitFilter::default()
    };
    assert_eq!(shown(vcpus), [(11, 1)]);
    let reasons = |name: &str| ExitFilter {
        reasons: vec![name.into()],
        ..ExitFilter::default()
    };
    assert_eq!(shown(reasons("CPUID")), [(10, 1), (11, 1)]);
    assert_eq!(shown(reasons("hlt")), [(10, 0), (11, 0)]);
}
