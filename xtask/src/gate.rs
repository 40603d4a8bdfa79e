//! Commands that run tests: `check` for daily work, and `test` for newcomers. `rest` runs the tests
//! that `test` leaves out, and `lab-full` uses every kernel that Debian has. Each command prints a
//! table of times and a summary line.

use anyhow::{Context, Result, bail, ensure};

use crate::abilities::{
    Ability, can_bootstrap, can_browse, can_contain, can_emulate, can_multiplex, can_reach,
    can_render, can_run_java, can_run_ranks, can_trace, can_virtualize, has_trace_processor,
    installed,
};
use crate::clock::Step;
use crate::suite::{self, Test};
use crate::supervised::Setting;
use crate::tally::{Skip, Tally};
use crate::tiers::{self, Tier, is_unit};
use crate::{cargo, checks, linted, machine, oracle, run, run_command, supply};

/// Number of random streams with which the laws and oracles run in daily work. An expensive law
/// takes a fraction of them.
const FEW_STREAMS: Setting = ("PROPTEST_CASES", "2500");
/// The same number in `make test-rest`.
const STREAMS: Setting = ("PROPTEST_CASES", "5000");
/// The same number in `make lab-full`.
const MANY_STREAMS: Setting = ("PROPTEST_CASES", "100000");
/// Time for which a fuzz test searches for inputs that break something.
const FUZZ_SECONDS: Setting = ("VMNOISE_FUZZ_SECONDS", "60");

const UNIT: Tier = Tier::together("unit", 10);
const FEW: Tier = Tier::side_by_side("law", 20).with(FEW_STREAMS).quiet();
const MORE: Tier = Tier::side_by_side("law", 20).with(STREAMS).quiet();
const MANY: Tier = Tier::side_by_side("law", 60).with(MANY_STREAMS).quiet();
const BPF_RUN: Tier = Tier::side_by_side("bpf_run", 20);
const ROOT: Tier = Tier::alone("root", 10);
const KVM: Tier = Tier::alone("kvm", 10);
const VIRTUAL_TIME: Tier = Tier::side_by_side("virtual_time", 30);

/// Labs that `test` runs, one of each kind: a KVM guest in virtual time, a Xen guest, and a guest
/// that is joined with its host.
const FIRST_LABS: [&str; 3] = [
    "guest::virtual_time::a_linux_guest_has_its_name_its_exits_and_its_halts",
    "xen::virtual_time::a_pv_guest_reports_what_xen_gave_to_others",
    "join::virtual_time::a_disturber_on_the_host_is_named_for_the_guests_gaps_to_the_last_bit",
];

/// Checks format, lints and documentation, and runs the unit tests and the laws with 2,500 streams.
/// This takes minutes, and needs no privileges.
///
/// # Errors
/// If a check or a test fails.
pub fn check() -> Result<()> {
    let mut tally = Tally::default();
    format(&mut tally)?;
    let step = Step::begin();
    let tests = suite::list(linted::command())?;
    tally.took("build (tests, with lints)", step.spent());
    units(&mut tally, &tests)?;
    close(tally)
}

/// Runs all checks and tests that newcomers and daily work need. The format is checked first,
/// because this check is quick.
///
/// # Errors
/// If a check or a test fails.
pub fn test() -> Result<()> {
    let mut tally = Tally::default();
    format(&mut tally)?;
    let tests = built(&mut tally)?;
    units(&mut tally, &tests)?;
    let release = Tier::side_by_side("release", 5).quiet();
    tiers::run(&mut tally, release, select(&tests, "release"), &Ok(()))?;
    let root = can_trace();
    tiers::run(&mut tally, BPF_RUN, select(&tests, "bpf_run"), &root)?;
    if root.is_ok() {
        oracle::install(&["pyarrow", oracle::OPENTELEMETRY, oracle::BENCHMARK])?;
    }
    tiers::run(&mut tally, ROOT, select(&tests, "root"), &root)?;
    let kvm = root.and_then(|()| can_virtualize());
    tiers::run(&mut tally, KVM, select(&tests, "kvm"), &kvm)?;
    let mut labs = select(&tests, "virtual_time");
    labs.retain(is_first_lab);
    ensure!(
        labs.len() == FIRST_LABS.len(),
        "a first lab has no test of its name any more"
    );
    tiers::run(&mut tally, VIRTUAL_TIME, labs, &can_emulate())?;
    close(tally)
}

/// Runs all checks and tests that `test` leaves out. These are dependencies, laws with 5,000
/// streams, fuzz tests, engines, browser, terminal, and all other labs.
///
/// # Errors
/// If a check or a test fails.
pub fn rest() -> Result<()> {
    let mut tally = Tally::default();
    let step = Step::begin();
    supply(&mut tally)?;
    tally.took("supply", step.spent());
    let tests = built(&mut tally)?;
    tiers::run(&mut tally, MORE, select(&tests, "law"), &Ok(()))?;
    let fuzz = Tier::alone("search", 20).with(FUZZ_SECONDS);
    tiers::run(&mut tally, fuzz, select(&tests, "search"), &Ok(()))?;
    let engines = installed(&oracle::ENGINES);
    let engine = Tier::side_by_side("engine", 20);
    tiers::run(&mut tally, engine, select(&tests, "engine"), &engines)?;
    let processor = engines.and_then(|()| has_trace_processor());
    let tier = Tier::side_by_side("processor", 20);
    tiers::run(&mut tally, tier, select(&tests, "processor"), &processor)?;
    let browse = Tier::side_by_side("browse", 10);
    tiers::run(&mut tally, browse, select(&tests, "browse"), &can_browse())?;
    let kvm = can_trace().and_then(|()| can_virtualize());
    let live = kvm.clone().and_then(|()| can_browse());
    let tier = Tier::alone("browse_kvm", 10);
    tiers::run(&mut tally, tier, select(&tests, "browse_kvm"), &live)?;
    let tier = Tier::alone("tmux", 10);
    let tmux = kvm.and_then(|()| can_multiplex());
    tiers::run(&mut tally, tier, select(&tests, "tmux"), &tmux)?;
    let emulate = can_emulate();
    let tier = Tier::alone("lab", 30);
    tiers::run(&mut tally, tier, select(&tests, "lab"), &emulate)?;
    let mut labs = select(&tests, "virtual_time");
    labs.retain(|test| !is_first_lab(test));
    tiers::run(&mut tally, VIRTUAL_TIME, labs, &emulate)?;
    close(tally)
}

/// Runs vmnoise with the kernels of every Debian suite that can be fetched, and runs all other long
/// tests.
///
/// # Errors
/// If a test fails.
pub fn lab_full() -> Result<()> {
    let mut tally = Tally::default();
    let tests = built(&mut tally)?;
    tiers::run(&mut tally, MANY, select(&tests, "law"), &Ok(()))?;
    let emulate = can_emulate();
    let mut one = |name: &'static str, ability: &Ability| {
        let mut chosen = select(&tests, name);
        if name == "lab::own_suite" {
            chosen.retain(|test| !test.is_in("lab_full"));
        }
        tiers::run(&mut tally, Tier::alone(name, 90), chosen, ability)
    };
    one("lab::own_suite", &emulate)?;
    one("lab_full::own_suite", &emulate)?;
    one("lab_full::large", &emulate)?;
    one("additions::lab_full", &Ok(()))?;
    one("lab_full::files", &Ok(()))?;
    one("lab_full::loggopsim", &Ok(()))?;
    one("lab_full::newcomer", &can_bootstrap())?;
    let service = can_bootstrap().and_then(|()| can_emulate());
    one("lab_full::service", &service)?;
    let engines = [&oracle::ENGINES[..], &oracle::MORE_ENGINES].concat();
    let engines = installed(&engines).and_then(|()| can_run_java());
    one("lab_full::engines", &engines)?;
    let ranks = can_trace().and_then(|()| can_run_ranks());
    one("lab_full::mpi", &ranks)?;
    let kvm = can_trace().and_then(|()| can_virtualize());
    one("lab_full::hosts", &kvm)?;
    let dashboard = can_trace().and_then(|()| installed(&[oracle::GRAFANA]));
    one("lab_full::dashboard", &dashboard)?;
    one("lab_full::kubernetes", &can_render())?;
    let containers = kvm.and_then(|()| can_contain());
    one("lab_full::containers", &containers)?;
    for (suite, name) in [
        ("trixie", "lab_full::trixie"),
        ("trixie-backports", "lab_full::trixie_backports"),
    ] {
        let ability = can_emulate().and_then(|()| can_reach(suite));
        one(name, &ability)?;
    }
    close(tally)
}

/// Checks only the dependencies.
///
/// # Errors
/// If a check fails.
pub fn supply_alone() -> Result<()> {
    let mut tally = Tally::default();
    supply(&mut tally)?;
    close(tally)
}

fn format(tally: &mut Tally) -> Result<()> {
    let step = Step::begin();
    checks::format()?;
    tally.took("format", step.spent());
    Ok(())
}

fn units(tally: &mut Tally, tests: &[Test]) -> Result<()> {
    let units: Vec<Test> = tests.iter().filter(|test| is_unit(test)).cloned().collect();
    tiers::run(tally, UNIT, units, &Ok(()))?;
    tiers::run(tally, FEW, select(tests, "law"), &Ok(()))
}

fn select(tests: &[Test], tier: &str) -> Vec<Test> {
    let chosen = tests.iter().filter(|test| test.is_in(tier));
    chosen.cloned().collect()
}

fn is_first_lab(test: &Test) -> bool {
    FIRST_LABS.contains(&test.name.as_str())
}

/// Builds the release binary and all test programs. The test programs are built through clippy.
/// Returns the tests.
///
/// Both builds run at the same time in different folders, because each ends with crates that use
/// only one CPU for a long time.
fn built(tally: &mut Tally) -> Result<Vec<Test>> {
    let step = Step::begin();
    std::thread::scope(|scope| {
        let binary = scope.spawn(build_binary);
        let tests = build_tests();
        let binary = binary.join().unwrap_or_else(|_| bail!("cargo build"));
        tests.and(binary)
    })?;
    let tests = suite::list(linted::command())?;
    tally.took("build (release binary; tests, with lints)", step.spent());
    Ok(tests)
}

fn build_tests() -> Result<()> {
    let arguments = ["build", "--quiet", "--workspace", "--all-targets"];
    run_command(linted::command().args(arguments))
}

fn build_binary() -> Result<()> {
    let arguments = ["build", "--quiet", "--release", "--package", "vmnoise"];
    run(&cargo(), &arguments)
}

/// Runs checks that are not libtest tests, and counts them like tests.
fn supply(tally: &mut Tally) -> Result<()> {
    println!("== supply");
    for (test, check) in supply::CHECKS {
        match check().context(test)? {
            Ok(()) => tally.passed(),
            Err(reason) => {
                println!("skipped {test}: {reason}");
                tally.skipped(Skip {
                    tier: "supply".to_owned(),
                    test: test.to_owned(),
                    reason,
                });
            }
        }
    }
    Ok(())
}

fn close(tally: Tally) -> Result<()> {
    let in_ci = std::env::var("CI").is_ok_and(|word| word == "true");
    tally.close(in_ci, |skip| {
        machine::must_run(&skip.tier, &skip.test, machine::has)
    })
}
