//! Test tiers. A tier is the name of a module in a test's path: `host_feed::kvm::a_guest_asks` is
//! in the tier `kvm`. A test in no tier is a unit test, which needs nothing special from the
//! machine.

use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::abilities::Ability;
use crate::clock::Step;
use crate::suite::Test;
use crate::supervised::{self, Ran, Setting};
use crate::tally::{Skip, Tally};
use crate::together;

/// Memory that is reserved for one test, in KiB. The largest lab needs 2 GiB.
const MEMORY_KIB: usize = 3 << 20;

/// Number of tests after which a quiet tier prints its progress.
const PROGRESS: usize = 200;

/// Modules with the longest tests, which take minutes. They start first, so that no CPU is idle
/// while the last test runs.
const LONG: [&str; 4] = ["join::", "feed_nested::", "xen::", "join_timers::"];

/// Tiers whose tests need something special from the machine, or much time. All other tests are
/// unit tests.
const NEEDY: [&str; 14] = [
    "law",
    "search",
    "engine",
    "processor",
    "release",
    "bpf_run",
    "root",
    "kvm",
    "lab",
    "lab_full",
    "virtual_time",
    "browse",
    "browse_kvm",
    "tmux",
];

/// Way in which the tests of a tier run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As many tests at the same time as CPUs and memory allow. They do not disturb each other.
    SideBySide,
    /// One test at a time, because the tests load, change or measure the machine.
    Alone,
    /// All tests of a program at the same time in one process. One program runs after the other.
    Together,
}

/// A group of tests that run under the same conditions.
#[derive(Debug, Clone, Copy)]
pub struct Tier {
    pub name: &'static str,
    pub order: Order,
    /// Time limit of one test. On a quiet machine with two cores, a test takes less than a third of
    /// its limit.
    pub limit: Duration,
    pub setting: Option<Setting>,
    /// Whether the output of passed tests is shown, such as ratios and kernel versions.
    pub verbose: bool,
}

impl Tier {
    /// Returns a tier whose tests run one at a time, and show their output. `minutes` is the time
    /// limit of a test.
    pub const fn alone(name: &'static str, minutes: u64) -> Tier {
        Tier {
            name,
            order: Order::Alone,
            limit: Duration::from_secs(60 * minutes),
            setting: None,
            verbose: true,
        }
    }

    /// Returns a tier whose tests run at the same time. `minutes` is the time limit of a test.
    pub const fn side_by_side(name: &'static str, minutes: u64) -> Tier {
        Tier {
            order: Order::SideBySide,
            ..Tier::alone(name, minutes)
        }
    }

    /// Returns a tier of short tests that run in one process per program. Passed tests show no
    /// output. `minutes` is the time limit of a program.
    pub const fn together(name: &'static str, minutes: u64) -> Tier {
        Tier {
            order: Order::Together,
            verbose: false,
            ..Tier::alone(name, minutes)
        }
    }

    /// Returns the same tier, but its tests have this environment variable.
    pub const fn with(self, setting: Setting) -> Tier {
        Tier {
            setting: Some(setting),
            ..self
        }
    }

    /// Returns the same tier, but passed tests show no output.
    pub const fn quiet(self) -> Tier {
        Tier {
            verbose: false,
            ..self
        }
    }
}

/// Returns whether a test is a unit test, which needs nothing special from the machine.
pub fn is_unit(test: &Test) -> bool {
    !NEEDY.iter().any(|tier| test.is_in(tier))
}

/// Runs these tests as a tier. Skips them if `ability` says that the machine cannot run them.
///
/// # Errors
/// If `tests` is empty, or if a program cannot be started.
pub fn run(tally: &mut Tally, tier: Tier, tests: Vec<Test>, ability: &Ability) -> Result<()> {
    let name = tier.name;
    ensure!(
        !tests.is_empty(),
        "tier {name} has no test: the filter no longer matches any name"
    );
    if let Err(reason) = ability {
        skip(tally, name, tests, reason);
        return Ok(());
    }
    println!("== tier {name}: {} tests", tests.len());
    let step = Step::begin();
    for ran in run_all(tier, tests)? {
        tally.add(name, &ran);
    }
    tally.took(&format!("tier {name}"), step.spent());
    Ok(())
}

fn skip(tally: &mut Tally, name: &str, tests: Vec<Test>, reason: &str) {
    println!("== tier {name}: {} tests skipped: {reason}", tests.len());
    for test in tests {
        println!("skipped {}", test.name);
        tally.skipped(Skip {
            tier: name.to_owned(),
            test: test.name,
            reason: reason.to_owned(),
        });
    }
}

fn run_all(tier: Tier, mut tests: Vec<Test>) -> Result<Vec<Ran>> {
    let settings: Vec<Setting> = tier.setting.into_iter().collect();
    if tier.order == Order::Together {
        return run_programs(tier, &settings, &tests);
    }
    // The tests are taken from the end of the list.
    tests.reverse();
    tests.sort_by_key(|test| LONG.iter().any(|part| test.name.starts_with(part)));
    let all = tests.len();
    let (waiting, over) = (Mutex::new(tests), Mutex::new(Vec::new()));
    let next = || waiting.lock().ok()?.pop();
    let work = || {
        while let Some(test) = next() {
            let ran = supervised::run(&test, &settings, tier.limit);
            if let Ok(mut over) = over.lock() {
                if let Ok(ran) = &ran {
                    ran.show(tier.verbose);
                }
                over.push(ran);
                if !tier.verbose && over.len() % PROGRESS == 0 {
                    println!("{} of {all} tests have run", over.len());
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..at_a_time(tier.order) {
            scope.spawn(work);
        }
    });
    over.into_inner().unwrap_or_default().into_iter().collect()
}

fn run_programs(tier: Tier, settings: &[Setting], tests: &[Test]) -> Result<Vec<Ran>> {
    let mut over = Vec::new();
    for tests in tests.chunk_by(|one, next| one.program == next.program) {
        let ran = together::run(tests, settings, tier.limit)?;
        ran.iter().for_each(|ran| ran.show(tier.verbose));
        over.extend(ran);
    }
    Ok(over)
}

fn at_a_time(order: Order) -> usize {
    if order != Order::SideBySide {
        return 1;
    }
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let facts = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = facts.lines().find_map(|line| {
        let words = line.strip_prefix("MemAvailable:")?.split_whitespace();
        words.take(1).next()?.parse::<usize>().ok()
    });
    available.map_or(1, |kib| (kib / MEMORY_KIB).clamp(1, cpus))
}
