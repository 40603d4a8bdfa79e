//! Judges what `vmnoise explain GUEST HOST` makes of a pair whose truth is known.

mod ways;

use std::collections::BTreeSet;

use serde_json::Value;
use vmnoise_labs::judge::{HOST_INTERRUPTS, assert_budgets_add_up};
use vmnoise_labs::oracle::waited::{self, Waited};
use vmnoise_labs::pair::{DISTURBED, EVERY, HOST, NAME, QUIET, Recorded};
use vmnoise_labs::vmm_steps::Look;

use crate::altered;
use crate::pairing_judge::Pair;

/// Every tick of a kernel of Debian.
const TICK_NS: u64 = 4_000_000;
/// The host's shares of a vCPU that could run and had no CPU.
const WAITS: [&str; 2] = ["preempted", "throttled"];
/// Of the host's recording (`Pair::of`).
const THRESHOLD_NS: u64 = 1_000;
/// A tick of /proc/stat.
const USER_TICK_NS: u64 = 10_000_000;

/// Both of the guest's recordings joined, and the guest's own view of the second.
pub struct Joined {
    pub recorded: Recorded,
    pub quiet: Value,
    pub disturbed: Value,
    pub alone: Value,
}

impl Joined {
    pub fn of(recorded: Recorded) -> Joined {
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
        Joined {
            recorded,
            quiet,
            disturbed,
            alone,
        }
    }

    /// The disturber is among the tasks of the host that took the guest's time, and was not
    /// while nobody was let loose.
    pub fn assert_disturber_is_named(&self) {
        let disturber = self.recorded.disturber().unwrap();
        let names = |joined| preempting(joined).any(|culprit| culprit["name"] == disturber);
        assert!(names(&self.disturbed), "{}", self.disturbed["culprits"]);
        assert!(!names(&self.quiet), "{}", self.quiet["culprits"]);
    }

    /// It took the most of all.
    pub fn assert_disturber_is_first(&self) {
        self.assert_disturber_is_named();
        let first = preempting(&self.disturbed).next().unwrap();
        println!("first {first}");
        let disturber = self.recorded.disturber().unwrap();
        assert_eq!(first["name"], disturber, "{}", self.disturbed["culprits"]);
    }

    /// The host's CPUs on which somebody took the guest's time.
    pub fn cpus_of_culprits(&self) -> BTreeSet<u64> {
        let culprits = self.disturbed["culprits"].as_array().unwrap().iter();
        let on_host = culprits.filter(|culprit| culprit["side"] == "host");
        on_host
            .filter_map(|culprit| culprit["cpu"].as_u64())
            .collect()
    }

    /// What the guest's kernel booked as steal, in its own ticks, is how long the scheduler
    /// of the host let the vCPU's thread wait meanwhile; and so is what `vmnoise` books.
    pub fn assert_steal_is_run_delay(&self) {
        let delays = self.recorded.treatment.readings();
        let [before, after] = delays[..] else {
            panic!("{delays:?}")
        };
        let delay_ns = after.vcpus[0].run_delay_ns - before.vcpus[0].run_delay_ns;
        let [before_ns, after_ns] = self.recorded.guest_steal_ns;
        let booked_ns = after_ns - before_ns;
        println!("/proc/stat of the guest {booked_ns} ns, run delay {delay_ns} ns");
        // Each of its readings is cut to a user's tick, and a kernel's tick behind.
        assert!(booked_ns.abs_diff(delay_ns) <= USER_TICK_NS + TICK_NS);

        self.assert_waits_are_booked();
    }

    /// Between two looks at the scheduler's book, which was read while the guest measured, the
    /// guest alone books as steal what was booked as run delay: KVM writes the one into the other,
    /// so to the last nanosecond. Joined, the host's tasks have as much of it, and interrupts while
    /// the vCPU waited the rest.
    pub fn assert_waits_are_booked(&self) {
        let looks: Vec<Look> = self.recorded.treatment.looks().copied().collect();
        let trace = self.recorded.trace(DISTURBED).unwrap();
        let stolen = waited::stolen(&self.disturbed, &trace).unwrap();
        let stolen = Waited::of(&stolen, &looks).unwrap();
        let joined = |shares: &[&str]| {
            let lost = waited::joined(&self.disturbed, shares).unwrap();
            Waited::of(&lost, &looks).unwrap()
        };
        let tasks = joined(&WAITS);
        let all = joined(&[&WAITS[..], &HOST_INTERRUPTS].concat());
        // Nobody is named for what is too short for the clock.
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
        Pair { name, guest, host }.assert_other_clocks_are_refused();
    }
}

/// The host's tasks that ran instead of a vCPU, the first of them first.
fn preempting(joined: &Value) -> impl Iterator<Item = &Value> {
    let culprits = joined["culprits"].as_array().unwrap().iter();
    culprits.filter(|culprit| culprit["share"] == "preempted" && culprit["side"] == "host")
}

/// What nobody explains is at most one part in a hundred, of all gaps that the host witnessed as of
/// those that hold an exit.
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

/// How much of what is expected to be joined is.
pub fn assert_covers(joined: &Value) {
    let totals = &joined["joined"];
    let [witnessed, with_exit] =
        ["witnessed_above", "joined_above"].map(|key| number(&totals[key]));
    assert!(witnessed > 0, "{totals}");
    assert!(with_exit * 100 >= witnessed * 99, "{totals}");
}

/// Both levels of every budget.
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
