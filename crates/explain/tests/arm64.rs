//! Tests that exits of an arm64 guest, as tracefs reported them in an emulated machine, are added
//! up like all other exits. The code under test does not depend on x86.

use std::collections::BTreeMap;

use vmnoise_events::{
    Exit, ExitFilter, ExitReason, ReasonTotals, Share, ShareMap, Vcpu, VcpuId, VcpuTotals,
    Witnesses,
};
use vmnoise_explain::summarize_exits;

const TRACE: &str = include_str!("../../events/tests/arm64/trace");

/// Returns the time of a line (`3.312807:`), in nanoseconds.
fn time_ns(line: &str) -> u64 {
    let seconds = line.split_whitespace().nth(3).unwrap();
    let (seconds, micros) = seconds.trim_end_matches(':').split_once('.').unwrap();
    let [seconds, micros]: [u64; 2] = [seconds, micros].map(|number| number.parse().unwrap());
    (seconds * 1_000_000 + micros) * 1000
}

fn reason(line: &str) -> ExitReason {
    let class = line.split_once("HSR_EC: 0x").unwrap().1;
    let class = u32::from_str_radix(&class[..4], 16).unwrap();
    let trapped = line.contains("TRAP:");
    ExitReason::arm64(if trapped { 2 } else { 0 }, class)
}

/// Returns every exit that is complete in the trace: from `kvm_exit` to the next `kvm_entry`.
fn exits() -> Vec<Exit> {
    let mut exits = Vec::new();
    let mut begun: Option<(u64, ExitReason)> = None;
    let mut left_ns = None;
    for line in TRACE.lines().filter(|line| line.contains(": kvm_")) {
        let now_ns = time_ns(line);
        if line.contains("kvm_exit:") {
            begun = Some((now_ns, reason(line)));
        } else if line.contains("kvm_userspace_exit:") {
            left_ns = Some(now_ns);
        } else if let Some((start_mono_ns, reason)) = begun.take() {
            let vmm = left_ns.take().map_or(0, |left_ns: u64| now_ns - left_ns);
            exits.push(Exit {
                start_mono_ns,
                end_mono_ns: now_ns,
                reason,
                exit_cpu: 0,
                entry_cpu: 0,
                heavy: vmm > 0,
                split: ShareMap::from([
                    (Share::Kvm, now_ns - start_mono_ns - vmm),
                    (Share::Vmm, vmm),
                ]),
            });
        }
    }
    exits
}

fn of_reason(reason: ExitReason, exits: &[&Exit]) -> ReasonTotals {
    let lengths = exits.iter().map(|exit| exit.dur_ns());
    let max_ns = lengths.clone().max().unwrap();
    ReasonTotals {
        reason: Some(reason),
        count: exits.len() as u64,
        heavy: exits.iter().filter(|exit| exit.heavy).count() as u64,
        min_ns: lengths.min().unwrap(),
        max_ns,
        split: sum(exits.iter().copied()),
        histogram: vec![(max_ns, exits.len() as u64)],
    }
}

fn sum<'a>(exits: impl Iterator<Item = &'a Exit>) -> ShareMap<u64> {
    exits.fold(ShareMap::default(), |mut sum, exit| {
        sum += exit.split;
        sum
    })
}

#[test]
fn each_exit_is_counted_once_under_the_name_that_the_kernel_printed() {
    let exits = exits();
    let mut by_reason: BTreeMap<ExitReason, Vec<&Exit>> = BTreeMap::new();
    for exit in &exits {
        by_reason.entry(exit.reason).or_default().push(exit);
    }
    let worst = exits.iter().max_by_key(|exit| exit.dur_ns()).copied();
    let vcpu = Vcpu {
        id: VcpuId(0),
        tid: 1,
        vmm_pid: 1,
        number: Some(0),
        vm: 0,
        vm_name: "init".into(),
        identity: Default::default(),
        sees_kvm: true,
    };
    let totals = VcpuTotals {
        vcpu: vcpu.id,
        first_mono_ns: exits[0].start_mono_ns,
        last_mono_ns: exits.last().unwrap().end_mono_ns,
        exits: exits.len() as u64,
        heavy: exits.iter().filter(|exit| exit.heavy).count() as u64,
        split: sum(exits.iter()),
        unseen_ns: 0,
        worst: worst.map(Box::new),
        reasons: by_reason
            .iter()
            .map(|(reason, exits)| of_reason(*reason, exits))
            .collect(),
    };
    let summarize = |reasons: &[&str]| {
        let filter = ExitFilter {
            reasons: reasons.iter().map(|&name| name.into()).collect(),
            ..ExitFilter::default()
        };
        let summary = summarize_exits([(&vcpu, &totals)], &filter, &Witnesses::OF_EXITS);
        summary.vms[0].vcpus[0].clone()
    };
    let vcpu = summarize(&[]);
    // These numbers are those of `grep -c` in the trace, except for the guest's last exit, which
    // never returns.
    let counted: BTreeMap<&str, u64> = vcpu
        .reasons
        .iter()
        .map(|reason| (reason.name.as_str(), reason.count))
        .collect();
    let printed = |words: &str| TRACE.matches(words).count() as u64;
    for name in ["DABT_LOW", "IABT_LOW", "SMC64", "SYS64", "WFx"] {
        assert_eq!(counted[name], printed(&format!("({name})")), "{name}");
    }
    assert_eq!(counted["HVC64"], printed("(HVC64)") - 1);
    assert_eq!(counted["IRQ"], printed("kvm_exit: IRQ"));
    assert_eq!(counted.len(), 7);
    assert_eq!(vcpu.heavy, Some(printed("kvm_userspace_exit") - 1));
    assert_eq!(
        vcpu.light
            .zip(vcpu.heavy)
            .map(|(light, heavy)| light + heavy),
        Some(vcpu.exits)
    );
    let taken: u64 = vcpu.reasons.iter().map(|reason| reason.total_ns).sum();
    assert_eq!(
        vcpu.time_ns.guest + taken,
        totals.last_mono_ns - totals.first_mono_ns
    );

    let [wfx] = &summarize(&["wfx"]).reasons[..] else {
        panic!("one reason was asked for");
    };
    assert_eq!(wfx.name, "WFx");
}
