//! Tests that a link named `rtla` behaves as rtla's own tests expect (tools/tracing/rtla/tests/*.t
//! of Linux). The tests check the exit status, and the words that scripts read.

mod root {
    use std::os::unix::fs::symlink;
    use std::process::{Command, Output};

    use tempfile::TempDir;
    use vmnoise_testbed::binary;

    /// Creates a folder that contains a link `rtla` to the binary.
    fn linked() -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        symlink(binary(), folder.path().join("rtla")).unwrap();
        folder
    }

    /// Runs a command line in a shell. Stdout and stderr both go to stdout, as in a log.
    fn rtla(folder: &TempDir, line: &str) -> Output {
        let mut shell = Command::new("timeout");
        shell.args(["60", "sh", "-c", &format!("./rtla {line} 2>&1")]);
        shell.current_dir(folder.path()).output().unwrap()
    }

    /// Checks command lines. For each, checks its exit status, and a line that it must print. An
    /// empty line is not checked.
    #[track_caller]
    fn check(lines: &[(&str, i32, &str)]) {
        let folder = linked();
        for (line, status, printed) in lines {
            let output = rtla(&folder, line);
            let said = String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.code(), Some(*status), "{line}: {said}");
            let is_printed = printed.is_empty() || said.lines().any(|it| it == *printed);
            assert!(is_printed, "{line}: {said}");
        }
    }

    #[test]
    fn osnoise_ends_as_rtla_does() {
        check(&[
            ("osnoise --help", 0, ""),
            ("osnoise top -P F:1 -c 0 -r 900000 -d 2s -q", 0, ""),
            (
                "osnoise top -s 30 -T 1 -t",
                2,
                "  Saving trace to osnoise_trace.txt",
            ),
            (
                "osnoise hist -s 30 -T 1 -t",
                2,
                "  Saving trace to osnoise_trace.txt",
            ),
            (
                "osnoise hist -P F:1 -c 0 -r 900000 -d 2s -b 10 -E 25",
                0,
                "# RTLA osnoise histogram",
            ),
            ("osnoise hist -s 1", 2, ""),
        ]);
    }

    #[test]
    fn timerlat_ends_as_rtla_does() {
        check(&[
            ("timerlat --help", 0, ""),
            ("timerlat top -s 3 -T 10 -t", 2, ""),
            ("timerlat top -P F:1 -c 0 -d 2s -q", 0, ""),
            ("timerlat top -i 2 -c 0 -n -d 10s", 2, ""),
            ("timerlat top -a 5 --dump-tasks", 2, ""),
            ("timerlat top --aa-only 5", 2, ""),
            ("timerlat top -s 3 -T 10 -t --no-aa", 2, ""),
            ("timerlat hist -c 0 -d 2s", 0, "# RTLA timerlat histogram"),
            ("timerlat hist -i 2 -c 0 -n -d 10s", 2, ""),
        ]);
    }

    #[test]
    fn a_trace_is_saved_with_rtlas_line() {
        const DEFAULT: &str = "  Saving trace to timerlat_trace.txt";
        const CUSTOM: &str = "  Saving trace to custom.txt";
        check(&[
            ("timerlat hist -T 2 -t", 2, DEFAULT),
            ("timerlat hist -T 2 -t custom.txt", 2, CUSTOM),
            ("timerlat hist -T 2 --trace=custom.txt", 2, CUSTOM),
            ("timerlat hist -T 2 --on-threshold trace", 2, DEFAULT),
            (
                "timerlat hist -T 2 --on-threshold trace,file=custom.txt",
                2,
                CUSTOM,
            ),
            ("timerlat hist -d 1s --on-end trace", 0, DEFAULT),
            ("timerlat top -d 1s --on-end trace", 0, DEFAULT),
        ]);
    }

    #[test]
    fn actions_are_carried_out_in_their_order_and_the_first_that_fails_is_the_last() {
        check(&[
            (
                "timerlat hist -T 2 --on-threshold shell,command='echo TestOutput'",
                2,
                "TestOutput",
            ),
            (
                "timerlat hist -T 2 --on-threshold shell,command='echo -n 1' --on-threshold shell,command='echo 2'",
                2,
                "12",
            ),
            (
                "timerlat hist -T 2 --on-threshold shell,command='echo -n 1; false' --on-threshold shell,command='echo -n 2'",
                2,
                "1# RTLA timerlat histogram",
            ),
            (
                "timerlat hist -T 2 -d 1s --on-threshold shell,command='echo TestOutput' --on-threshold continue",
                0,
                "TestOutput",
            ),
            (
                "timerlat top -q -T 2 -d 1s --on-threshold shell,command='echo TestOutput' --on-threshold continue",
                0,
                "TestOutput",
            ),
        ]);
    }

    /// The table is printed before the action fails, and its last line must follow.
    #[test]
    fn after_an_action_that_failed_the_table_has_its_last_line() {
        let folder = linked();
        let fails = "timerlat top -T 2 --on-threshold shell,command='echo -n 1; false' --on-threshold shell,command='echo -n 2'";
        let output = rtla(&folder, fails);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(2), "{said}");
        let sums = said.lines().find(|line| line.starts_with("1ALL #"));
        assert!(sums.is_some(), "{said}");
    }

    /// If the program is started under its own name, it uses its own words.
    #[test]
    fn the_words_are_ours_under_our_name() {
        let folder = linked();
        let mut own = Command::new(binary());
        own.current_dir(folder.path());
        let output = own
            .args("timerlat hist -T 2 -t".split(' '))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(
            said.contains("# vmnoise timerlat histogram") && !said.contains("Saving trace"),
            "{said}"
        );
    }
}
