//! Tests of the output for two vCPUs.
#![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

use std::time::Duration;

use clap::Parser;
use vmnoise_events::{
    ExitFilter, ExitReason, Isa, ReasonTotals, Share, ShareMap, Vcpu, VcpuId, VcpuTotals, Witnesses,
};
use vmnoise_explain::summarize_exits;

use super::fixtures::summary;
use super::*;

#[derive(Debug, Parser)]
struct Asked {
    #[command(flatten)]
    histogram: ExitsHistOptions,
}

fn hist(options: &[&str]) -> String {
    let words = ["hist"].iter().chain(options);
    let asked = Asked::try_parse_from(words).unwrap();
    hist::render(Duration::from_secs(1), &summary(), asked.histogram)
}

#[test]
fn top_has_the_vcpus_then_the_reasons_of_each() {
    let text = top::render(Duration::from_secs(1), &summary());
    assert_eq!(
        text, "\
VM exits, 1.0 s; times of a vCPU in % of its own

 VM   vCPU  exits/s    LW   HW  guest   kvm    vmm  preempted  host irq  blocked  throttled  halted
 web     0     1101  1000  101  98.54  0.16   0.12       1.18      0.01     0.00       0.00    0.00
 web     -       10     -   10  87.00     -  13.00       0.00      0.00     0.00       0.00    0.00

web vCPU 0
 Event  Samples  Sample%  Time%  Min us    Max us  Mean us    p99 us  1us-16ms        where it went
 io         101     9.17  91.10   14.29  12000.00   131.68  12000.00     @         .  preempted 89%, vmm 9%, kvm 2%
 cpuid     1000    90.83   8.90    1.24      3.00     1.30      3.00  @.              kvm 100%
 longest: 12.000 ms, io, CPU 2 to CPU 3
   |-    11.800 ms  preempted
   |-     100.0 us  vmm
   |-      50.0 us  host_irq
   `-      50.0 us  kvm

web vCPU -
 Event  Samples  Sample%   Time%  Min us  Max us  Mean us  p99 us  8us-16us  where it went
 io          10   100.00  100.00   14.29   14.34    13.00   14.34  @         vmm 100%
"
    );
}

/// Tests a run without probes for scheduling events. The time of other tasks must not appear as
/// `kvm`.
#[test]
fn what_had_no_witness_is_a_dash_and_null() {
    let split = ShareMap::from([(Share::Kvm, 700), (Share::Vmm, 200), (Share::HostIrq, 100)]);
    let reason = ReasonTotals {
        reason: Some(ExitReason {
            isa: Isa::Svm,
            code: 0x7b,
        }),
        count: 1,
        heavy: 1,
        min_ns: 1_000,
        max_ns: 1_000,
        split,
        histogram: vec![(1_023, 1)],
    };
    let vcpu = Vcpu {
        id: VcpuId(0),
        tid: 71,
        vmm_pid: 70,
        number: Some(0),
        vm: 1,
        vm_name: "web".into(),
        identity: Default::default(),
        sees_kvm: true,
    };
    let totals = VcpuTotals {
        vcpu: vcpu.id,
        first_mono_ns: 1_000,
        last_mono_ns: 11_000,
        exits: 1,
        heavy: 1,
        split,
        unseen_ns: 0,
        worst: None,
        reasons: vec![reason],
    };
    let witnesses = Witnesses {
        sched: false,
        ..Witnesses::OF_EXITS
    };
    let summary = summarize_exits([(&vcpu, &totals)], &ExitFilter::default(), &witnesses);
    let text = top::render(Duration::from_secs(1), &summary);
    let rows: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows[3],
        [
            "web", "0", "1", "0", "1", "90.00", "-", "2.00", "-", "1.00", "-", "-", "0.00", "7.00"
        ]
    );
    assert_eq!(rows[2].last(), Some(&"unexplained"));
    let percents = rows[3][5..].iter().filter_map(|it| it.parse::<f64>().ok());
    assert!((percents.sum::<f64>() - 100.0).abs() < 0.01, "{text}");
    assert!(
        text.contains("unexplained 70%, vmm 20%, host_irq 10%"),
        "{text}"
    );
    let vcpu = serde_json::to_value(&summary).unwrap()["vms"][0]["vcpus"][0].clone();
    for shares in [&vcpu["time_ns"], &vcpu["reasons"][0]["shares_ns"]] {
        for unknown in ["kvm", "preempted", "blocked", "throttled"] {
            assert!(shares[unknown].is_null(), "{shares}");
        }
        assert_eq!(shares["unexplained"], 700);
        assert_eq!(
            (&shares["vmm"], &shares["host_irq"]),
            (&200.into(), &100.into())
        );
    }
}

#[test]
fn hist_has_a_column_for_each_vcpu() {
    assert_eq!(
        hist(&[]),
        "\
# vmnoise exits histogram
# Time unit is microseconds (us)
# Duration:   0 00:00:01
Index           web/0     web/-
1.024             900         0
1.280              90         0
2.560              10         0
12.288            100        10
10485.760           1         0
count:           1101        10
min:            1.239    14.295
avg:           13.261    13.000
max:        12000.000    14.335
"
    );
}

#[test]
fn hist_by_reason_has_the_reason_that_took_most_first() {
    let text = hist(&[
        "--by",
        "reason",
        "--no-header",
        "--no-summary",
        "--with-zeros",
    ]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "1.024               0       900");
    assert_eq!(lines[2], "1.536               0         0");
    assert_eq!(lines[14], "12.288            110         0");
    assert_eq!(lines.last(), Some(&"10485.760           1         0"));
}
