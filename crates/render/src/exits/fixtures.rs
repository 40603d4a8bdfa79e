//! Exits for tests of the output.

use vmnoise_events::{Share, ShareMap, VcpuId, VmFact};
use vmnoise_explain::{ExitsSummary, ReasonExits, VcpuExits, VcpuTime, VmExits, WorstExit};

type Taken = ShareMap<Option<u64>>;

fn taken(kvm: Option<u64>, vmm: u64, preempted: u64, host_irq: u64) -> Taken {
    let mut taken = ShareMap::only(Share::OF_EXITS, |_| Some(0));
    taken[Share::Kvm] = kvm;
    taken[Share::Vmm] = Some(vmm);
    taken[Share::Preempted] = Some(preempted);
    taken[Share::HostIrq] = Some(host_irq);
    taken
}

fn reason(name: &str, lengths: &[(u64, u64)], shares_ns: Taken) -> ReasonExits {
    let count = lengths.iter().map(|(_, count)| count).sum();
    let total_ns = shares_ns.total();
    ReasonExits {
        name: name.into(),
        code: Some(1),
        count,
        heavy: if shares_ns[Share::Vmm] > Some(0) {
            Some(count)
        } else {
            Some(0)
        },
        total_ns,
        min_ns: lengths[0].0 - 40,
        mean_ns: total_ns / count,
        p99_ns: lengths[lengths.len() - 1].0,
        max_ns: lengths[lengths.len() - 1].0,
        shares_ns,
        histogram: lengths.to_vec(),
    }
}

/// Returns a VM with two vCPUs. The `kvm` time of the second vCPU is unknown.
pub fn summary() -> ExitsSummary {
    let io = taken(Some(300_000), 1_150_000, 11_800_000, 50_000);
    let cpuid = taken(Some(1_295_000), 0, 0, 5_000);
    let first = VcpuExits {
        id: VcpuId(0),
        vcpu: Some(0),
        tid: 71,
        exits: 1_101,
        light: Some(1_000),
        heavy: Some(101),
        time_ns: VcpuTime {
            guest: 985_400_000,
            taken: taken(Some(1_595_000), 1_150_000, 11_800_000, 55_000),
            unseen: 0,
        },
        reasons: vec![
            reason("io", &[(14_335, 100), (12_000_000, 1)], io),
            reason("cpuid", &[(1_279, 900), (1_535, 90), (3_000, 10)], cpuid),
        ],
        worst: vec![WorstExit {
            start_mono_ns: 5,
            dur_ns: 12_000_000,
            reason: "io".into(),
            code: 123,
            exit_cpu: 2,
            entry_cpu: 3,
            overhead_ns: Some(150_000),
            shares_ns: taken(Some(50_000), 100_000, 11_800_000, 50_000),
        }],
    };
    let pvm = taken(None, 130_000, 0, 0);
    let second = VcpuExits {
        id: VcpuId(1),
        vcpu: None,
        tid: 72,
        exits: 10,
        light: None,
        heavy: Some(10),
        time_ns: VcpuTime {
            guest: 870_000,
            taken: pvm,
            unseen: 0,
        },
        reasons: vec![reason("io", &[(14_335, 10)], pvm)],
        worst: Vec::new(),
    };
    let vm = VmExits {
        vm: 70,
        name: "web".into(),
        identity: [(VmFact::Vmm, "qemu")].into_iter().collect(),
        vcpus: vec![first, second],
    };
    ExitsSummary { vms: vec![vm] }
}
