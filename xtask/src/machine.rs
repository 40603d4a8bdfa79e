//! Finds the abilities of this machine without vmnoise's help, and the tests that the machine must
//! run. In CI, only a missing ability excuses a skipped tier or test. A tier's own check uses
//! vmnoise and its tools, which may be broken.

use std::fs;
use std::path::Path;
use std::process::Command;

use Fact::{
    Advisories, Bpf, Cgroup2, Debian, IdleStates, Kvm, LoopDisk, Pressure, Quotas, Root, RtGroups,
    StealClock,
};

/// Ability of a machine that no package provides. Programs and packages are not listed, because CI
/// installs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    Advisories,
    Root,
    Bpf,
    Kvm,
    Debian,
    Cgroup2,
    IdleStates,
    LoopDisk,
    Pressure,
    Quotas,
    RtGroups,
    StealClock,
}

/// Tiers, and the facts that each needs. A machine with these facts must run the tier.
const TIERS: [(&str, &[Fact]); 19] = [
    ("supply", &[]),
    ("unit", &[]),
    ("law", &[]),
    ("release", &[]),
    ("engine", &[]),
    ("processor", &[]),
    ("bpf_run", &[Root, Bpf]),
    ("root", &[Root, Bpf]),
    ("kvm", &[Root, Bpf, Kvm]),
    ("tmux", &[Root, Bpf, Kvm]),
    ("browse", &[]),
    ("browse_kvm", &[Root, Bpf, Kvm]),
    ("lab", &[Debian]),
    ("virtual_time", &[Debian]),
    ("lab_full", &[Debian]),
    ("lab_full::mpi", &[Root, Bpf]),
    ("lab_full::hosts", &[Root, Bpf, Kvm]),
    ("lab_full::dashboard", &[Root, Bpf]),
    ("lab_full::containers", &[Root, Bpf, Kvm]),
];

/// Tests that may skip themselves, and the fact that each needs in addition to the facts of its
/// tier.
const TESTS: [(&str, Fact); 16] = [
    ("supply::advisories", Advisories),
    (
        "chaos::kvm::every_fault_that_a_machine_of_others_may_have",
        Quotas,
    ),
    (
        "osnoise_options::root::a_threaded_group_takes_the_polling_threads_and_any_other_the_process",
        Cgroup2,
    ),
    (
        "kvm::dumps::a_quota_that_holds_a_vm_back_is_written_down_and_without_one_nothing_is",
        Quotas,
    ),
    ("kvm::dumps::pressure_is_written_down", Pressure),
    ("undone::root::from_a_control_group", Cgroup2),
    (
        "undone::root::with_idle_states_that_were_switched_off",
        IdleStates,
    ),
    (
        "disks::root::a_disk_that_hangs_holds_up_neither_the_run_nor_its_result",
        LoopDisk,
    ),
    (
        "disks::root::ctrl_c_gives_up_what_a_disk_that_hangs_does_not_take",
        LoopDisk,
    ),
    (
        "osnoise_options::root::the_hole_of_a_real_time_group_is_throttled_or_whoever_ran_in_it",
        RtGroups,
    ),
    (
        "root::steal::a_polling_thread_reads_the_steal_clock_of_its_cpu",
        StealClock,
    ),
    (
        "root::steal::the_steal_clock_is_not_behind_the_column_of_proc_stat",
        StealClock,
    ),
    (
        "own_cpus::tests::root::interrupts_are_as_long_as_the_tracer_tells",
        StealClock,
    ),
    (
        "own_cpus::tests::root::tasks_wait_as_long_as_the_scheduler_says",
        StealClock,
    ),
    (
        "own_cpus::tests::root::the_sum_of_losses_is_what_the_steal_clock_went_on",
        StealClock,
    ),
    (
        "kvm::own_cpus::a_guest_tells_what_is_taken_from_its_own_cpus",
        StealClock,
    ),
];

/// Returns the facts that a tier and a test need. A name such as `lab_full::trixie` is a part of
/// the tier `lab_full`. A tier or test that is not listed needs no facts.
fn needs(tier: &str, test: &str) -> Vec<Fact> {
    let of = |tier: &str| TIERS.iter().find(|(known, _)| *known == tier);
    let of_tier = of(tier).or_else(|| of(tier.split("::").next()?));
    let of_tier = of_tier.map_or(&[][..], |(_, facts)| facts);
    let of_test = TESTS.iter().filter(|(known, _)| *known == test);
    let of_test = of_test.map(|(_, fact)| *fact);
    of_tier.iter().copied().chain(of_test).collect()
}

/// Returns whether a machine must run this test of this tier. `holds` tells whether the machine has
/// a fact.
pub fn must_run(tier: &str, test: &str, holds: impl Fn(Fact) -> bool) -> bool {
    needs(tier, test).into_iter().all(holds)
}

/// Returns whether this machine has a fact. Also returns true if the checking program cannot run,
/// so that a missing program excuses no test.
pub fn has(fact: Fact) -> bool {
    let said_by = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let file = |path: &str| fs::read_to_string(path).unwrap_or_default();
    match fact {
        // cargo-deny also makes this request by default.
        Advisories => said_by(
            "git",
            &[
                "ls-remote",
                "https://github.com/RustSec/advisory-db",
                "HEAD",
            ],
        )
        .is_none_or(|said| !said.is_empty()),
        Root => said_by("id", &["-u"]).is_none_or(|said| said.trim() == "0"),
        // For programs of type `tracing`, bpftool always reports that they cannot be loaded,
        // because it tries one without an attach point. So another type is checked.
        Bpf => said_by("bpftool", &["feature", "probe", "kernel"]).is_none_or(|said| {
            said.contains("program_type raw_tracepoint is available")
                && said.contains("CONFIG_DEBUG_INFO_BTF is set to y")
        }),
        Kvm => Path::new("/dev/kvm").exists(),
        Debian => {
            let release = file("/etc/os-release");
            std::env::consts::ARCH == "x86_64" && release.lines().any(|line| line == "ID=debian")
        }
        Cgroup2 => file("/proc/self/mounts").contains(" cgroup2 "),
        IdleStates => Path::new("/sys/devices/system/cpu/cpu1/cpuidle/state0").exists(),
        LoopDisk => {
            let has_ext4 = file("/proc/filesystems")
                .lines()
                .any(|line| line.trim() == "ext4");
            has_ext4 && Path::new("/dev/loop-control").exists()
        }
        Quotas => {
            Path::new("/sys/fs/cgroup/cpu").is_dir()
                || file("/sys/fs/cgroup/cgroup.subtree_control").contains("cpu")
        }
        Pressure => Path::new("/proc/pressure/cpu").exists(),
        RtGroups => Path::new("/sys/fs/cgroup/cpu/cpu.rt_runtime_us").exists(),
        StealClock => {
            let dump = ["btf", "dump", "file", "/sys/kernel/btf/vmlinux"];
            let lists_it = |said: String| said.contains("VAR 'steal_time'");
            has_moved(&file("/proc/stat")) && said_by("bpftool", &dump).is_none_or(lists_it)
        }
    }
}

/// Returns whether the steal time in /proc/stat, the eighth number, is above 0.
fn has_moved(stat: &str) -> bool {
    let all = stat.lines().next().unwrap_or_default();
    let steal = all.split_ascii_whitespace().nth(8);
    steal.is_some_and(|ticks| ticks != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_but(missing: Fact) -> impl Fn(Fact) -> bool {
        move |fact| fact != missing
    }

    #[test]
    fn a_tier_must_run_where_all_it_needs_is_there() {
        let must_run = |tier, missing| must_run(tier, "a::test", all_but(missing));
        assert!(must_run("kvm", Cgroup2));
        assert!(!must_run("kvm", Kvm));
        assert!(must_run("root", Kvm));
        assert!(!must_run("root", Bpf));
        assert!(!must_run("lab_full::trixie", Debian));
        assert!(must_run("lab_full::hosts", Debian));
        assert!(!must_run("lab_full::hosts", Kvm));
        for fact in [Root, Bpf, Kvm, Debian] {
            assert!(must_run("browse", fact), "CI installs programs");
        }
    }

    #[test]
    fn a_test_that_skips_itself_is_excused_by_its_own_fact_alone() {
        let must_run = |test, missing| must_run("root", test, all_but(missing));
        assert!(!must_run("undone::root::from_a_control_group", Cgroup2));
        assert!(!must_run("undone::root::from_a_control_group", Root));
        assert!(must_run("undone::root::from_a_control_group", RtGroups));
        assert!(must_run("root::in_no_list", Cgroup2));
    }

    #[test]
    fn a_steal_clock_is_one_that_moved() {
        assert!(has_moved("cpu  1 2 3 4 5 6 7 80 0 0\ncpu0 1 2"));
        assert!(!has_moved("cpu  1 2 3 4 5 6 7 0 0 0"));
        assert!(!has_moved(""));
    }
}
