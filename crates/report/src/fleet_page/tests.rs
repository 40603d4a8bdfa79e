//! Tests of pages about invented fleets with a few runs.

use vmnoise_events::{MeasuringCommand, Share};

use super::FleetPage;
use crate::fleet::{FleetCpu, FleetRun, FleetTaker};

const SECOND_NS: u64 = 1_000_000_000;

/// Returns a run of one second on one CPU. A single culprit takes `taken_ns` of this second.
fn run(host: &str, threshold_ns: u64, taken_ns: u64) -> FleetRun {
    FleetRun {
        host: host.into(),
        rank: None,
        workload: MeasuringCommand::Osnoise,
        threshold_ns,
        pauses: false,
        complete: true,
        lost_gaps: 0,
        lost_witnesses: 0,
        cpus: vec![FleetCpu {
            cpu: 0,
            span_ns: SECOND_NS,
            runtime_ns: SECOND_NS,
            gaps: 1,
            noise_ns: taken_ns,
            max_gap_ns: Some(taken_ns),
        }],
        takers: vec![FleetTaker {
            share: Share::Thread,
            name: Some("ksmd".into()),
            gaps: 1,
            total_ns: taken_ns,
            most_ns: taken_ns,
        }],
    }
}

fn page(runs: Vec<FleetRun>) -> String {
    let page = FleetPage {
        name: "fleet".into(),
        runs,
        gapless_runs: 0,
        refused: Vec::new(),
        tool_version: "1".into(),
    };
    page.render().unwrap().replace('\u{a0}', " ")
}

fn assert_says(page: &str, words: &str) {
    assert!(page.contains(words), "{words} is not in {page}");
}

#[test]
fn each_host_is_held_against_its_like() {
    let fine = (0..9).map(|nth| {
        run(
            &format!("fine{nth}"),
            1_000,
            if nth == 3 { 90_000_000 } else { 3_000_000 },
        )
    });
    let coarse = (0..9).map(|nth| run(&format!("coarse{nth}"), 100_000, 1_000_000));
    let lone = [run("lone", 7_000, 500_000_000)];
    let page = page(fine.chain(coarse).chain(lone).collect());
    assert_says(
        &page,
        "One of 18 hosts stands out: fine3 loses 9.0 % of its time, and the median host of its group 0.30 %.",
    );
    assert_says(
        &page,
        "cannot be compared, and are only in the tables: fewer than 8 hosts were measured",
    );
    assert_says(
        &page,
        "Gaps below 1.00 µs to 100 µs (by host) were not recorded",
    );
}

#[test]
fn a_gap_among_hosts_that_have_none_is_no_finding() {
    let hosts = (0..9).map(|nth| run(&format!("h{nth}"), 1_000, if nth == 3 { 1_000 } else { 0 }));
    assert_says(&page(hosts.collect()), "None of 9 hosts stands out");
}

#[test]
fn a_rank_that_two_jobs_have_is_told_by_its_host() {
    let ranks = (0..18_u64).map(|nth| {
        let taken_ns = if nth == 12 { 90_000_000 } else { 3_000_000 };
        FleetRun {
            rank: Some(nth % 9),
            ..run(&format!("node{nth}"), 1_000, taken_ns)
        }
    });
    // The mean of both ranks would be half as large.
    assert_says(
        &page(ranks.collect()),
        "of its time is lost by rank 3 on node12: 30.0 times",
    );
}

#[test]
fn one_cpu_of_many_at_which_nobody_looked_is_told() {
    let with_unseen = |unseen_ns: u64| {
        let mut run = run("h", 1_000, 3_000_000);
        let usual = run.cpus[0];
        run.cpus = (0..40).map(|cpu| FleetCpu { cpu, ..usual }).collect();
        run.cpus[7].runtime_ns -= unseen_ns;
        page(vec![run])
    };
    let told = "have CPUs that were not observed for more than 5 % of the time";
    assert_says(&with_unseen(60_000_000), told);
    assert!(!with_unseen(40_000_000).contains(told));
}

#[test]
fn one_host_is_not_told_in_the_plural() {
    assert_says(
        &page(vec![run("h", 1_000, 3_000_000)]),
        "The host that lost most",
    );
}
