//! Exits for tests of what is shown.

use vmnoise_explain::{ExitsSummary, ReasonExits, Taken, VcpuExits, VcpuTime, VmExits, WorstExit};

use super::parts;

fn taken(kvm: Option<u64>, vmm: u64, preempted: u64, host_irq: u64) -> Taken {
    Taken {
        kvm,
        vmm,
        preempted: Some(preempted),
        blocked: Some(0),
        throttled: Some(0),
        host_irq: Some(host_irq),
        host_softirq: Some(0),
        host_nmi: Some(0),
        halted: 0,
        unexplained: None,
        unseen: 0,
    }
}

fn reason(name: &str, lengths: &[(u64, u64)], shares_ns: Taken) -> ReasonExits {
    let count = lengths.iter().map(|(_, count)| count).sum();
    let total_ns = parts::total_ns(&shares_ns);
    ReasonExits {
        name: name.into(),
        code: Some(1),
        count,
        heavy: if shares_ns.vmm > 0 { count } else { 0 },
        total_ns,
        min_ns: lengths[0].0 - 40,
        mean_ns: total_ns / count,
        p99_ns: lengths[lengths.len() - 1].0,
        max_ns: lengths[lengths.len() - 1].0,
        shares_ns,
        histogram: lengths.to_vec(),
    }
}

/// A VM of two vCPUs, one of them where KVM is not seen.
pub fn summary() -> ExitsSummary {
    let io = taken(Some(300_000), 1_150_000, 11_800_000, 50_000);
    let cpuid = taken(Some(1_295_000), 0, 0, 5_000);
    let first = VcpuExits {
        vcpu: Some(0),
        tid: 71,
        exits: 1_101,
        light: Some(1_000),
        heavy: 101,
        time_ns: VcpuTime {
            guest: 985_400_000,
            taken: taken(Some(1_595_000), 1_150_000, 11_800_000, 55_000),
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
        vcpu: None,
        tid: 72,
        exits: 10,
        light: None,
        heavy: 10,
        time_ns: VcpuTime {
            guest: 870_000,
            taken: pvm,
        },
        reasons: vec![reason("io", &[(14_335, 10)], pvm)],
        worst: Vec::new(),
    };
    let vm = VmExits {
        vm: 70,
        name: "web".into(),
        vcpus: vec![first, second],
    };
    ExitsSummary { vms: vec![vm] }
}
