//! Tests `make run` on machines without a usable /dev/kvm. It must report the reason, and measure
//! in a thread instead. Its last three lines must contain the lost time, the culprit, and the path
//! of the page.

use std::path::PathBuf;

use vmnoise_testbed::lab_program;

/// Length of bursts in µs. A SCHED_FIFO task uses 6 of every 10 ms. Ordinary tasks share the other
/// 4 ms with the measuring thread, so no other task can take as much time.
const TURN_US: u32 = 6_000;
const EVERY_US: u32 = 10_000;

fn script(name: &str) -> PathBuf {
    let scripts = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scripts");
    scripts.join(name)
}

/// Returns the last three lines that `make run` prints.
fn last_lines(stdout: &str) -> [&str; 3] {
    let lines: Vec<&str> = stdout.lines().collect();
    let last = lines.last_chunk::<3>();
    *last.unwrap_or_else(|| panic!("fewer than three lines: {stdout}"))
}

/// Returns the duration of a step that `make run` prints in its line about this step, in seconds.
fn took_s(stderr: &str, step: &str) -> f64 {
    let line = format!("run: {step} took ");
    let line = stderr.lines().find_map(|it| it.strip_prefix(&line));
    line.unwrap().trim_end_matches(" s").parse().unwrap()
}

fn assert_says(stderr: &str, words: &[&str]) {
    for words in words {
        assert!(stderr.contains(words), "{words}: {stderr}");
    }
}

mod root {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::process::Command;
    use std::time::Duration;

    use serde_json::Value;
    use tempfile::TempDir;
    use vmnoise_testbed::{Disturber, binary};

    use super::*;

    /// The last of the two CPUs that these tests may use.
    const CPU: u32 = 1;
    /// User ID of the user nobody.
    const NOBODY: u32 = 65534;
    const EMPTY_DEV: &str = "mount -t tmpfs none /dev";

    /// Copies the files that `make run` needs for a measurement into a folder with a space in its
    /// name.
    fn clone_with_program() -> TempDir {
        let named = tempfile::Builder::new().prefix("a clone ").tempdir();
        let folder = named.unwrap();
        let scripts = folder.path().join("scripts");
        fs::create_dir(&scripts).unwrap();
        let program = (binary(), folder.path().join("vmnoise"));
        let copies = ["run", "timed"].map(|name| (script(name), scripts.join(name)));
        for (from, to) in [program].into_iter().chain(copies) {
            fs::copy(from, &to).unwrap();
            // A clone that was made with umask 077 has files that only its owner may read.
            fs::set_permissions(to, Permissions::from_mode(0o755)).unwrap();
        }
        folder
    }

    /// Runs `scripts/run` after these lines of shell in its own mount namespace. Returns whether
    /// the script succeeded, its stdout, and its stderr.
    fn run(folder: &TempDir, before: &str, as_whom: &str) -> (bool, String, String) {
        let line = format!("{before}\nexec {as_whom} scripts/run ./vmnoise 1s");
        let output = Command::new("unshare")
            .args(["--mount", "taskset", "-c", "0,1", "sh", "-euc", &line])
            .current_dir(folder.path())
            .output()
            .unwrap();
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap());
        (output.status.success(), stdout, stderr)
    }

    /// Returns the shares of the first CPU in the recording that the page shows.
    fn shares_of_run(folder: &TempDir) -> Value {
        let output = Command::new(folder.path().join("vmnoise"))
            .args(["explain", "target/run.vmn", "--format", "json"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        summary["cpus"][0]["shares_ns"].clone()
    }

    /// Asserts that the last lines contain the page's heading and the path of the page.
    fn assert_is_of_page(lines: [&str; 3], folder: &TempDir) {
        let file = folder.path().join("target/report.html");
        let page = fs::read_to_string(&file).unwrap();
        // A terminal shows these characters in this form.
        let page = page.replace('\u{a0}', " ").replace('µ', "u");
        let [lost, taker, place] = lines;
        let heading = format!(
            "<h1>{}; {taker}</h1>",
            lost.strip_suffix('.').unwrap_or(lost)
        );
        assert!(page.contains(&heading), "{heading}");
        let place_there = format!("report: {} (", fs::canonicalize(&file).unwrap().display());
        assert!(place.starts_with(&place_there), "{place}");
    }

    #[test]
    fn without_a_usable_kvm_a_thread_measures_and_names_who_took_the_time() {
        let [turn, every] = [TURN_US, EVERY_US].map(|us| Duration::from_micros(us.into()));
        let _taker = Disturber::paced(CPU, turn, every, Duration::ZERO).unwrap();
        let none = (EMPTY_DEV.to_owned(), "/dev/kvm does not exist");
        // This device can be opened, but is no KVM.
        let null = (
            format!("umask 077; {EMPTY_DEV}; mknod /dev/kvm c 1 3"),
            "KVM speaks API version -1",
        );
        for (before, why) in [none, null] {
            let folder = clone_with_program();
            let (success, stdout, stderr) = run(&folder, &before, "");
            assert!(success, "{stderr}");
            assert_says(
                &stderr,
                &[
                    why,
                    "vmnoise osnoise measures CPU 1 from inside instead",
                    "run: report took ",
                ],
            );
            // The measurement takes a second.
            assert!(took_s(&stderr, "measure") >= 1.0, "{stderr}");
            let lines = last_lines(&stdout);
            let [lost, taker, _] = lines;
            assert!(lost.starts_with("On CPU 1 a thread loses "), "{lost}");
            assert!(taker.ends_with("lab-disturb running instead."), "{taker}");
            assert_is_of_page(lines, &folder);
        }
    }

    #[test]
    fn without_root_it_says_what_to_type_and_blames_nobody_it_could_not_see() {
        let folder = clone_with_program();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        chown(folder.path(), Some(NOBODY), None).unwrap();
        let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups";
        let (success, stdout, stderr) = run(&folder, EMPTY_DEV, nobody);
        assert!(success, "{stderr}");
        assert_says(
            &stderr,
            &[
                "type: sudo scripts/run ./vmnoise",
                "/dev/kvm does not exist",
            ],
        );
        // One line, for the measurement that took place. Commands that cannot run do not load
        // probes.
        assert_eq!(
            stderr.matches("no names without BPF").count(),
            1,
            "{stderr}"
        );
        let lines = last_lines(&stdout);
        let [_, taker, _] = lines;
        let (_, who) = taker.split_once(" % of the noise is ").unwrap();
        let shares = shares_of_run(&folder);
        let ns = |share: &str| shares[share].as_u64().unwrap();
        // The scheduler counts how long the thread waited. Only BPF knows which tasks ran
        // meanwhile, and the causes of the other lost time.
        let expected = match ns("thread") > ns("unexplained") {
            true => "other threads.",
            false => "unexplained, because vmnoise could not watch all of this kernel.",
        };
        assert_eq!(who, expected, "{shares}");
        for unseen in ["irq", "softirq", "nmi", "hw", "hv_or_hw"] {
            assert!(shares[unseen].is_null(), "{shares}");
        }
        assert_is_of_page(lines, &folder);
    }
}

mod virtual_time {
    use vmnoise_testbed::bed::{DebianKernel, Lab};

    use super::*;

    #[test]
    fn a_machine_without_kvm_has_its_page() {
        let disturb = lab_program("lab-disturb").unwrap();
        let takes = format!("& lab-disturb paced 0 {TURN_US} {EVERY_US} 0");
        let report = Lab::kernel(DebianKernel::Cloud)
            .without_kvm()
            .virtual_time(2)
            .shell()
            .program(&script("run"))
            .program(&script("timed"))
            .program(&disturb)
            .run(&[&takes, "sh /bin/run /bin/vmnoise 300ms"])
            .unwrap();
        let said = &report.outputs[0];
        assert_says(
            &said.stderr,
            &[
                "/dev/kvm does not exist",
                "vmnoise osnoise measures CPU 0 from inside instead",
            ],
        );
        let [lost, taker, place] = last_lines(said.text().unwrap());
        assert!(lost.starts_with("On CPU 0 a thread loses "), "{lost}");
        assert!(taker.ends_with("lab-disturb running instead."), "{taker}");
        assert!(
            place.starts_with("report: /target/report.html ("),
            "{place}"
        );
    }
}
