//! Tests of folded stacks, with invented intervals and exits.

use std::fs;

use vmnoise_events::{ExitFilter, MeasuringCommand, Share, ShareMap, VcpuId, VmIdentity, fixtures};
use vmnoise_explain::{
    Detail, Part, Phase, ReasonExits, VcpuExits, VcpuTime, VmExits, WakeupDetail,
};

use super::*;

fn part(phase: Option<Phase>, share: Share, source: Option<u32>, ns: u64) -> Part {
    Part {
        phase,
        share,
        source: source.map(SourceId),
        host_cpu: None,
        ns,
        count: 1,
    }
}

/// Returns the lines for these intervals. `name` is the name of the source with the id 7.
fn lines(intervals: &[Interval], name: &'static str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.folded");
    let mut stacks =
        FoldedStacks::create(&path, &fixtures::facts(MeasuringCommand::Osnoise)).unwrap();
    for interval in intervals {
        stacks.interval(interval, &|id| if id.0 == 7 { name } else { "eth0:40" });
    }
    stacks.finish().unwrap();
    let text = fs::read_to_string(path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

fn gap(cpu: u32, parts: Vec<Part>) -> Interval {
    Interval {
        cpu,
        dur_ns: parts.iter().map(|part| part.ns).sum(),
        parts,
        ..Interval::default()
    }
}

#[test]
fn gaps_are_stacks_by_cpu_share_and_source() {
    let gaps = [
        gap(
            3,
            vec![
                part(None, Share::Irq, Some(1), 400),
                part(None, Share::Hw, None, 50),
            ],
        ),
        gap(3, vec![part(None, Share::Irq, Some(1), 600)]),
        gap(4, vec![part(None, Share::Thread, Some(7), 9)]),
    ];
    let expected = [
        "cpu 3;hw 50",
        "cpu 3;irq;eth0:40 1000",
        "cpu 4;thread;hog:7 9",
    ];
    assert_eq!(lines(&gaps, "hog:7"), expected);
}

#[test]
fn wake_ups_are_stacks_by_phase() {
    let wakeup = Interval {
        detail: Detail::Wakeup(WakeupDetail::default()),
        ..gap(
            0,
            vec![
                part(None, Share::HvOrHw, None, 5),
                part(Some(Phase::Wakeup), Share::Thread, Some(7), 30),
            ],
        )
    };
    assert_eq!(
        lines(&[wakeup], "hog:7"),
        ["unsplit;hv_or_hw 5", "wakeup;thread;hog:7 30"]
    );
}

#[test]
fn a_name_forges_no_frame_no_number_and_no_line() {
    let gaps = [gap(0, vec![part(None, Share::Thread, Some(7), 1)])];
    for (name, written) in [
        ("x;irq;eth0:40", "x%3Birq%3Beth0:40"),
        ("x 5000", "x%205000"),
        ("x\ncpu 0;irq 9", "x%0Acpu%200%3Birq%209"),
        ("x%20y", "x%2520y"),
    ] {
        assert_eq!(lines(&gaps, name), [format!("cpu 0;thread;{written} 1")]);
    }
}

/// Returns the lines for a VM whose exits were all counted, but not recorded one by one.
fn lines_of_vm(only_reason: Option<&str>) -> Vec<String> {
    let known = |shares: &[(Share, u64)]| {
        let mut known = ShareMap::from_fn(|_| Some(0));
        for (share, ns) in shares {
            known[*share] = Some(*ns);
        }
        known
    };
    let reason = |name: &str, shares: &[(Share, u64)]| ReasonExits {
        name: name.into(),
        code: None,
        count: 1,
        heavy: None,
        total_ns: shares.iter().map(|(_, ns)| ns).sum(),
        min_ns: 0,
        mean_ns: 0,
        p99_ns: 0,
        max_ns: 0,
        shares_ns: known(shares),
        histogram: Vec::new(),
    };
    let taken = [
        (Share::Preempted, 100),
        (Share::Kvm, 8),
        (Share::Halted, 5_000),
        (Share::Unexplained, 40),
    ];
    let vcpu = VcpuExits {
        id: VcpuId(0),
        vcpu: Some(0),
        tid: 10,
        exits: 2,
        light: None,
        heavy: None,
        time_ns: VcpuTime {
            guest: 1_000,
            taken: known(&taken),
            unseen: 40,
        },
        reasons: vec![
            reason("io", &[(Share::Preempted, 30), (Share::Kvm, 8)]),
            reason("hlt", &[(Share::Halted, 5_000)]),
        ],
        worst: Vec::new(),
    };
    let vm = VmExits {
        vm: 9,
        name: "my vm;x".into(),
        identity: VmIdentity::default(),
        vcpus: vec![vcpu],
    };
    let mut facts = fixtures::facts(MeasuringCommand::Exits);
    let reasons = only_reason.into_iter().map(Into::into).collect();
    facts.options.exits = Some(ExitFilter {
        reasons,
        ..ExitFilter::default()
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.folded");
    let mut stacks = FoldedStacks::create(&path, &facts).unwrap();
    stacks.counted(&ExitsSummary { vms: vec![vm] });
    stacks.finish().unwrap();
    let text = fs::read_to_string(path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn what_was_taken_from_a_vcpu_inside_of_its_guest_has_no_exit() {
    let expected = [
        "my%20vm%3Bx:9;io;kvm 8",
        "my%20vm%3Bx:9;io;preempted 30",
        "my%20vm%3Bx:9;no exit;preempted 70",
    ];
    assert_eq!(lines_of_vm(None), expected);
    // Time outside of exits is left out here: it may belong to exits that were not requested.
    assert_eq!(lines_of_vm(Some("io")), expected[..2]);
}
