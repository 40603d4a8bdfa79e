//! Runs the gate on a machine on which every program is a script. If a program is missing, a tier
//! is skipped, which is a failure in CI.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// Programs that the gate starts, and their scripts. The script of `cargo` names the test program.
const PROGRAMS: [(&str, &str); 17] = [
    ("cargo", CARGO),
    ("program-of-tests", PROGRAM_OF_TESTS),
    ("env", "shift 2; exec \"$@\""),
    ("git", "test -e unreachable || echo HEAD"),
    ("id", "echo 0"),
    ("bpftool", BPFTOOL),
    ("clang-format", ""),
    ("python3", ""),
    ("node", ""),
    ("npm", ": > \"$5/package.tgz\"; echo package.tgz"),
    (
        "sha512sum",
        concat!(
            "test ! -e forged || echo 00; case $1 in target/node/*) echo ",
            include_str!("../npm/argent.sha512"),
            ";; *) echo ",
            include_str!("../npm/plotly.sha512"),
            ";; esac"
        ),
    ),
    ("gzip", "test ! -e exchanged || echo mine"),
    (
        "tar",
        "/bin/mkdir -p \"$3/package\"; : > \"$3/package/plotly-cartesian.min.js\"",
    ),
    ("qemu-system-x86_64", ""),
    ("tmux", ""),
    ("chromium", ""),
    ("pdftotext", ""),
];

const CARGO: &str = r#"
case "$*" in
metadata*) echo '{"packages":[],"workspace_members":[],"resolve":null,"version":1,"workspace_root":"/","target_directory":"/"}' ;;
*doctor*) test -e blind || echo tp_btf ;;
deny*advisories) test ! -e unreachable || { echo 'failed to fetch advisory database' >&2; exit 1; } ;;
deny*) test ! -e refused || { echo 'error[rejected]: GPL' >&2; exit 1; } ;;
generate-lockfile*) test ! -e taken-back || { echo 'version 0.5.14 is yanked' >&2; exit 101; } ;;
*--message-format*) printf '{"reason":"compiler-artifact","package_id":"p","manifest_path":"%s/Cargo.toml","target":{"kind":["test"],"crate_types":["bin"],"name":"t","src_path":"/"},"profile":{"opt_level":"0","debuginfo":0,"debug_assertions":true,"overflow_checks":true,"test":true},"features":[],"filenames":[],"executable":"%s/bin/program-of-tests","fresh":true}\n' "$PWD" "$PWD" ;;
esac
"#;

/// Script of the test program. It has a test of each tier, and the FIRST_LABS of xtask/src/gate.rs.
const PROGRAM_OF_TESTS: &str = r#"
case "$*" in
*--list*) test ! -e unlistable || exit 1
	for test in a::unit b::unit c::unit law::a search::a a::engine::a a::processor::a a::release::a a::bpf_run::a a::root::a a::kvm::a a::lab::a \
		FIRST_LABS a::virtual_time::b a::browse::a a::browse_kvm::a a::tmux::a; do
		echo "$test: test"
	done
	exit ;;
*a::unit*b::unit*)
	echo 'test a::unit ... ok'
	test ! -e stuck || /bin/sleep 1000
	test ! -e cut || exit 139
	test ! -e idle-unit || echo 'skipped: b::unit: it saw no reason' >&2
	echo 'test b::unit ... ok'
	test ! -e torn || { echo 'test c::unit ... FAILED'; exit 101; }
	echo 'test c::unit ... ok'
	exit ;;
*a::root::a*) test ! -e idle || echo 'skipped: a::root::a: it saw no reason' >&2 ;;
*a::bpf_run::a*) test ! -e crashing || exit 139
	test ! -e red || { echo 'test result: FAILED. 0 passed; 1 failed; 0 ignored'; exit 101; } ;;
*a::kvm::a*) if test -e hanging; then
		trap '' TERM HUP INT
		echo 'the last words' >&2
		/bin/sleep 1000 &
		wait
	fi ;;
esac
echo 'test result: ok. 1 passed; 0 failed; 0 ignored'
case "$*" in
*a::bpf_run::a*) test ! -e dying || exit 139 ;;
esac
"#;

const BPFTOOL: &str = r#"
echo CONFIG_DEBUG_INFO_BTF is set to y
test -e no-bpf || echo eBPF program_type raw_tracepoint is available
"#;

/// Runs `cargo xtask TASK` on a machine without the programs `missing` and with these files.
/// Returns whether the task succeeds, and its output.
fn xtask(task: &str, in_ci: bool, missing: &[&str], files: &[&str]) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    for place in ["bin", "crates", "target/node"] {
        fs::create_dir_all(folder.path().join(place)).unwrap();
    }
    for (name, script) in PROGRAMS {
        if !missing.contains(&name) {
            let program = bin.join(name);
            let script = script.replace("FIRST_LABS", &first_labs());
            fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    fs::write(folder.path().join("Cargo.lock"), "").unwrap();
    for file in files {
        fs::write(folder.path().join(file), "").unwrap();
    }
    let path = std::env::var("PATH").unwrap();
    // kill(1) is that of the real machine, because a hanging test must really be killed.
    let kill = path.split(':').map(|it| Path::new(it).join("kill"));
    let kill = kill.into_iter().find(|it| it.exists()).unwrap();
    symlink(kill, bin.join("kill")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .arg(task)
        .current_dir(folder.path())
        .env("PATH", &bin)
        .env("CARGO", bin.join("cargo"))
        .env("CI", if in_ci { "true" } else { "" })
        .env("VMNOISE_TEST_SECONDS", "2")
        .output()
        .unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.success(), out + &err)
}

/// Runs the tasks `test` and `rest`, as CI does. Returns whether both succeed, and their output.
fn gate(in_ci: bool, missing: &[&str], files: &[&str]) -> (bool, String) {
    let (test, reported) = xtask("test", in_ci, missing, files);
    let (rest, others) = xtask("rest", in_ci, missing, files);
    (test && rest, reported + &others)
}

/// Returns the names in FIRST_LABS of xtask/src/gate.rs, separated by spaces.
fn first_labs() -> String {
    let source = include_str!("../src/gate.rs");
    let list = source.split_once("const FIRST_LABS").unwrap().1;
    let list = list.split_once("];").unwrap().0;
    let names: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    names.join(" ")
}

#[test]
fn a_package_that_is_another_than_the_one_looked_at_is_not_used() {
    let (passes, reported) = gate(true, &[], &["forged"]);
    assert!(!passes, "{reported}");
    assert!(reported.contains("is another file than the"), "{reported}");
}

#[test]
fn what_is_refused_or_yanked_or_not_its_makers_is_not_built() {
    for (file, said) in [
        ("refused", "error[rejected]: GPL"),
        ("taken-back", "version 0.5.14 is yanked"),
        ("exchanged", "is not what npm has"),
    ] {
        let (passes, reported) = gate(false, &[], &[file]);
        assert!(!passes, "{reported}");
        assert!(reported.contains(said), "{reported}");
    }
}

#[test]
fn advisories_that_cannot_be_had_are_a_skip_that_is_counted() {
    let (passes, reported) = gate(true, &[], &["unreachable"]);
    assert!(passes, "{reported}");
    assert!(
        reported.contains("skipped supply::advisories: "),
        "{reported}"
    );
    assert!(reported.contains(" 1 skipped"), "{reported}");
    // If another program can fetch the advisories, cargo-deny must be able to fetch them, too.
    assert!(!gate(true, &["git"], &["unreachable"]).0);
}

#[test]
fn a_machine_with_everything_passes_in_ci() {
    let (passes, reported) = gate(true, &[], &[]);
    assert!(passes, "{reported}");
    assert!(reported.contains(" 0 failed, "), "{reported}");
}

#[test]
fn a_test_that_fails_or_ends_without_a_result_fails_the_gate() {
    for (file, said) in [
        ("red", "1 tests failed"),
        (
            "crashing",
            "failed a::bpf_run::a\n    ended without a result",
        ),
        ("dying", "failed a::bpf_run::a\n    ended without a result"),
        ("unlistable", "lists no tests"),
    ] {
        let (passes, reported) = xtask("test", false, &[], &[file]);
        assert!(!passes, "{reported}");
        assert!(reported.contains(said), "{reported}");
    }
}

/// The test ignores all signals that can be ignored, and its child process holds the output open.
#[test]
fn a_test_that_hangs_is_ended_and_described_and_the_next_one_runs() {
    let (passes, reported) = xtask("test", false, &[], &["hanging"]);
    assert!(!passes, "{reported}");
    for said in [
        "the last words",
        "TOO LONG: ended after 2 s",
        "process ",
        "sleep",
        "== tier virtual_time",
        "failed a::kvm::a\n    was ended after 2 s",
        ", 1 failed, 0 skipped",
    ] {
        assert!(reported.contains(said), "{said}: {reported}");
    }
}

/// Passed tests of a common process are counted. The others run again one by one. A failure in the
/// common process still counts.
#[test]
fn tests_that_share_a_process_are_told_apart() {
    for (file, said) in [
        (
            "torn",
            "failed together with the other tests of its program",
        ),
        ("cut", "program-of-tests (all of its tests) ... DIED"),
        ("stuck", "program-of-tests (all of its tests) ... TOO LONG"),
    ] {
        let (passes, reported) = xtask("check", false, &[], &[file]);
        assert!(!passes, "{reported}");
        assert!(reported.contains(said), "{reported}");
        assert!(reported.contains(", 1 failed, 0 skipped"), "{reported}");
    }
    let (passes, reported) = xtask("check", false, &[], &["idle-unit"]);
    assert!(passes, "{reported}");
    assert!(
        reported.contains("3 passed, 0 failed, 1 skipped"),
        "{reported}"
    );
}

#[test]
fn a_program_that_is_gone_fails_in_ci_and_is_a_skip_elsewhere() {
    for (program, of) in [
        ("chromium", "a::browse::a: chromium (Debian's package)"),
        ("npm", "supply::charts: npm"),
    ] {
        let (passes, reported) = gate(true, &[program], &[]);
        assert!(!passes, "{reported}");
        let refused = format!("must run here: {of}");
        assert!(reported.contains(&refused), "{reported}");
    }

    let (passes, reported) = gate(false, &["chromium"], &[]);
    assert!(passes, "{reported}");
    assert!(
        reported.contains("tier browse: 1 tests skipped"),
        "{reported}"
    );
}

/// /dev/kvm is the only file of the real machine that matters here. Without it, the tests of this
/// tier need not run.
#[test]
fn tmux_must_be_there_where_its_tier_can_run() {
    let (passes, reported) = gate(true, &["tmux"], &[]);
    assert_eq!(passes, !Path::new("/dev/kvm").exists(), "{reported}");
}

#[test]
fn a_doctor_that_no_longer_sees_bpf_does_not_excuse_its_tier() {
    let (passes, reported) = gate(true, &[], &["blind"]);
    assert!(!passes, "{reported}");
    assert!(
        reported.contains("must run here: a::root::a: BPF"),
        "{reported}"
    );
    assert!(gate(false, &[], &["blind"]).0);
    assert!(!gate(true, &["bpftool"], &["blind"]).0, "not confirmed");
    // If another program confirms that BPF is missing, the skipped tier is excused.
    let (passes, reported) = gate(true, &[], &["blind", "no-bpf"]);
    assert!(passes, "{reported}");
}

#[test]
fn a_test_that_skips_itself_has_not_passed() {
    let (passes, reported) = gate(true, &[], &["idle"]);
    assert!(!passes, "{reported}");
    let refused = "must run here: a::root::a: it saw no reason";
    assert!(reported.contains(refused), "{reported}");
    assert!(gate(false, &[], &["idle"]).0);
}
