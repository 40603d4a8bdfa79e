//! Judges what `vmnoise explain GUEST HOST` makes of a pair whose truth is known.
#![allow(dead_code)] // No test needs all of it.

use std::collections::BTreeSet;

use serde_json::Value;
use vmnoise_events::Event;
use vmnoise_labs::judge::assert_budgets_add_up;
use vmnoise_labs::pair::{DISTURBED, HOST, NAME, QUIET, Recorded};
use vmnoise_recording::{Reader, Writer};

/// Every tick of a kernel of Debian.
const TICK_NS: u64 = 4_000_000;
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
        let join = |guest: &str| recorded.explain(&[guest, HOST], &["-T", "20"]).unwrap();
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
    /// of the host let the vCPU's thread wait meanwhile; and what the steal clock told
    /// `vmnoise` in there is what the host's tasks were seen to take.
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

        let steal_ns = number(&self.alone["cpus"][0]["steal_clock_ns"]);
        let shares = &self.disturbed["cpus"][0]["shares_ns"];
        let preempted_ns = number(&shares["preempted"]);
        println!("steal clock {steal_ns} ns, preempted {preempted_ns} ns");
        assert!(steal_ns.abs_diff(preempted_ns) <= TICK_NS, "{shares}");
    }

    /// A host's recording whose clock of the guest is wrong by 4 ms is no host of it.
    pub fn assert_another_clock_is_refused(&self) {
        const WRONG_BY_TSC: i64 = 4_000_000;
        let mut reader = Reader::open(&self.recorded.file(HOST)).unwrap();
        let wrong = self.recorded.file("wrong.rec");
        let mut writer = Writer::create(&wrong, reader.facts()).unwrap();
        let mut clocks = 0;
        let write = &mut |event: &Event| {
            let mut event = event.clone();
            if let Event::VcpuClock(clock) = &mut event {
                clock.offset_tsc += WRONG_BY_TSC;
                clocks += 1;
            }
            writer.push(&event).unwrap();
        };
        reader.for_each(write).unwrap();
        writer.finish().unwrap();
        assert!(clocks > 0);
        let refusal = self.recorded.explain(&[DISTURBED, "wrong.rec"], &[]);
        let refusal = refusal.unwrap_err().to_string();
        println!("{refusal}");
        assert!(refusal.contains("does not agree"), "{refusal}");
    }
}

/// The host's tasks that ran instead of a vCPU, the first of them first.
fn preempting(joined: &Value) -> impl Iterator<Item = &Value> {
    let culprits = joined["culprits"].as_array().unwrap().iter();
    culprits.filter(|culprit| culprit["share"] == "preempted" && culprit["side"] == "host")
}

/// What nobody explains is at most one part in a hundred.
pub fn assert_explains(joined: &Value) {
    let totals = &joined["joined"];
    let [joined_ns, unexplained_ns] =
        ["joined_ns", "unexplained_ns"].map(|key| number(&totals[key]));
    assert!(unexplained_ns * 100 <= joined_ns, "{totals}");
}

/// What nobody explains is no more than the way from the guest to the host's first event
/// and back, which has none: about as much for each exit (1.48 to 1.51 µs by the boot), and more
/// than one part in a hundred of gaps that are short.
pub fn assert_explains_all_but_the_way(joined: &Value) {
    const WAY_NS: u64 = 2_000;
    let totals = &joined["joined"];
    let [exits, unexplained_ns] = ["exits", "unexplained_ns"].map(|key| number(&totals[key]));
    assert!(unexplained_ns <= exits * WAY_NS, "{totals}");
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
