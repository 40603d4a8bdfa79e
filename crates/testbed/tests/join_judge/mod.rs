//! Checks the result of `vmnoise explain GUEST HOST` for a pair of recordings whose causes are
//! known.

mod ways;

use std::collections::BTreeSet;

use serde_json::Value;
use vmnoise_testbed::judge::{HOST_INTERRUPTS, assert_budgets_add_up};
use vmnoise_testbed::oracle::waited::{self, WaitPeriod};
use vmnoise_testbed::pair::{DISTURBED, EVERY, HOST, NAME, PairRecordings, QUIET};
use vmnoise_testbed::vmm_steps::ThreadSchedstat;

use crate::altered;
use crate::pairing_judge::PairFiles;

/// Time between two ticks of Debian's kernels, nanoseconds.
const TICK_NS: u64 = 4_000_000;
/// Shares of the host for time in which a vCPU was ready to run and had no CPU.
const WAITS: [&str; 2] = ["preempted", "throttled"];
/// Threshold of the host's recording, nanoseconds (`PairPlan::of`).
const THRESHOLD_NS: u64 = 1_000;
/// Resolution of the times in /proc/stat, nanoseconds.
const USER_TICK_NS: u64 = 10_000_000;

/// Joins of both recordings of the guest with the host's, and the result of the guest's second
/// recording alone.
pub struct JoinedPair {
    pub recorded: PairRecordings,
    pub quiet: Value,
    pub disturbed: Value,
    pub alone: Value,
}

impl JoinedPair {
    pub fn of(recorded: PairRecordings) -> JoinedPair {
        println!("{}", recorded.kernel_version);
        let join = |guest: &str| {
            let options = ["-T", "20", "--top", EVERY];
            recorded.explain(&[guest, HOST], &options).unwrap()
        };
        let (quiet, disturbed) = (join(QUIET), join(DISTURBED));
        let alone = recorded.explain(&[DISTURBED], &[]).unwrap();
        for joined in [&quiet, &disturbed] {
            assert_adds_up(joined);
            let pair = &joined["pairs"][0];
            assert_eq!(pair["vm"], NAME, "{pair}");
            assert_eq!(pair["vmm_pid"], recorded.treatment.pid, "{pair}");
            assert_eq!(joined["pairs"].as_array().unwrap().len(), 1, "{pair}");
            println!("pair {pair}");
            println!("joined {}", joined["joined"]);
            println!("thesis {}", joined["thesis"]);
        }
        JoinedPair {
            recorded,
            quiet,
            disturbed,
            alone,
        }
    }

    /// Asserts that the disturber is among the host's tasks that took the guest's time. In the
    /// recording without the disturber, it must not be.
    pub fn assert_disturber_is_named(&self) {
        let disturber = self.recorded.disturber().unwrap();
        let names = |joined| preempting(joined).any(|culprit| culprit["name"] == disturber);
        assert!(names(&self.disturbed), "{}", self.disturbed["culprits"]);
        assert!(!names(&self.quiet), "{}", self.quiet["culprits"]);
    }

    /// Asserts that the disturber took more time than any other task of the host.
    pub fn assert_disturber_is_first(&self) {
        self.assert_disturber_is_named();
        let first = preempting(&self.disturbed).next().unwrap();
        println!("first {first}");
        let disturber = self.recorded.disturber().unwrap();
        assert_eq!(first["name"], disturber, "{}", self.disturbed["culprits"]);
    }

    /// Returns the host's CPUs on which culprits took the guest's time.
    pub fn cpus_of_culprits(&self) -> BTreeSet<u64> {
        let culprits = self.disturbed["culprits"].as_array().unwrap().iter();
        let on_host = culprits.filter(|culprit| culprit["side"] == "host");
        on_host
            .filter_map(|culprit| culprit["cpu"].as_u64())
            .collect()
    }

    /// Asserts that the steal time of the guest's kernel and the steal time of `vmnoise` equal the
    /// run delay of the vCPU's thread on the host. The kernel counts its steal time in ticks.
    pub fn assert_steal_is_run_delay(&self) {
        let delays = self.recorded.treatment.readings();
        let [before, after] = delays[..] else {
            panic!("{delays:?}")
        };
        let delay_ns = after.vcpus[0].run_delay_ns - before.vcpus[0].run_delay_ns;
        let [before_ns, after_ns] = self.recorded.guest_steal_ns;
        let booked_ns = after_ns - before_ns;
        println!("/proc/stat of the guest {booked_ns} ns, run delay {delay_ns} ns");
        // Each read of the steal time is rounded to 10 ms, and may lag by one tick of the kernel.
        // The host reads the run delay after the guest has read its steal time and before the guest
        // sleeps. In between the vCPU may wait once more, for one turn of the disturber.
        let turns = preempting(&self.disturbed).map(|culprit| number(&culprit["max_ns"]));
        let turn_ns = turns.max().unwrap_or(0);
        assert!(booked_ns.abs_diff(delay_ns) <= USER_TICK_NS + TICK_NS + turn_ns);

        self.assert_waits_are_booked();
    }

    /// Compares times between two reads of the scheduler's run delay while the guest measured. The
    /// guest's recording alone must report exactly this run delay as steal, because KVM copies it.
    /// In the join, the host's tasks took this time, except for interrupts during the waits.
    pub fn assert_waits_are_booked(&self) {
        let looks: Vec<ThreadSchedstat> = self.recorded.treatment.looks().copied().collect();
        let trace = self.recorded.trace(DISTURBED).unwrap();
        let stolen = waited::stolen(&self.disturbed, &trace).unwrap();
        let stolen = WaitPeriod::of(&stolen, &looks).unwrap();
        let joined = |shares: &[&str]| {
            let lost = waited::joined(&self.disturbed, shares).unwrap();
            WaitPeriod::of(&lost, &looks).unwrap()
        };
        let tasks = joined(&WAITS);
        let all = joined(&[&WAITS[..], &HOST_INTERRUPTS].concat());
        // Time that is too short for the clock error has no culprit.
        let unsure_ns = number(&self.disturbed["joined"]["unsure"]["ns"]);
        let delay_ns = stolen.run_delay_ns;
        let reported = format!("run delay {delay_ns} ns, {stolen:?}, by tasks {tasks:?}, {all:?}");
        println!("{reported}");
        assert!(
            (stolen.least_ns..=stolen.most_ns).contains(&delay_ns),
            "{reported}"
        );
        let named_ns = tasks.least_ns..=all.most_ns + unsure_ns;
        assert!(named_ns.contains(&delay_ns), "{reported}");
    }

    pub fn assert_explains_all_but_the_ways(&self) {
        let guest = altered::events(&self.recorded.file(QUIET));
        ways::assert_explains_all_but_the_ways(&self.quiet, &guest);
    }

    pub fn assert_another_clock_is_refused(&self) {
        let [guest, host] = [DISTURBED, HOST].map(|name| self.recorded.file(name));
        let name = DISTURBED.to_owned();
        PairFiles { name, guest, host }.assert_other_clocks_are_refused();
    }
}

/// Returns the host's tasks that ran instead of a vCPU, the task with the most time first.
fn preempting(joined: &Value) -> impl Iterator<Item = &Value> {
    let culprits = joined["culprits"].as_array().unwrap().iter();
    culprits.filter(|culprit| culprit["share"] == "preempted" && culprit["side"] == "host")
}

/// Asserts that at most 1 % of the time of all gaps that the host recorded is unexplained. The same
/// must hold for the gaps that contain an exit.
pub fn assert_explains(joined: &Value) {
    let totals = &joined["joined"];
    for (of, unexplained) in [
        ("joined_ns", "unexplained_ns"),
        ("witnessed_ns", "witnessed_unexplained_ns"),
    ] {
        let [ns, unexplained_ns] = [of, unexplained].map(|key| number(&totals[key]));
        assert!(unexplained_ns * 100 <= ns, "{totals}");
    }
}

/// Asserts that at least 99 % of the gaps that should be joined are joined.
pub fn assert_covers(joined: &Value) {
    let totals = &joined["joined"];
    let [witnessed, with_exit] =
        ["witnessed_above", "joined_above"].map(|key| number(&totals[key]));
    assert!(witnessed > 0, "{totals}");
    assert!(with_exit * 100 >= witnessed * 99, "{totals}");
}

/// Asserts that the budgets of all gaps and of all exits add up.
pub fn assert_adds_up(joined: &Value) {
    assert_eq!(joined["schema"], "vmnoise.join/1");
    assert_budgets_add_up(joined);
    for tree in joined["trees"].as_array().unwrap() {
        let sum = |parts: &Value| -> u64 {
            let parts = parts.as_array().unwrap().iter();
            parts.map(|part| number(&part["ns"])).sum()
        };
        let exits = tree["exits"].as_array().unwrap();
        for exit in exits {
            assert_eq!(sum(&exit["parts"]), number(&exit["dur_ns"]), "{exit}");
        }
        let exits: u64 = exits.iter().map(|exit| number(&exit["dur_ns"])).sum();
        let rest = number(&tree["steal_ns"]) + number(&tree["residual_ns"]);
        let all = sum(&tree["guest"]) + exits + rest;
        assert_eq!(all, number(&tree["gap"]["dur_ns"]), "{tree}");
    }
}

pub fn number(value: &Value) -> u64 {
    let number = value.as_u64();
    number.unwrap_or_else(|| panic!("no number: {value}"))
}
