//! Tests of the progress line of long jobs, in a real terminal: it is visible while the job runs,
//! disappears with the result, and is absent without a terminal.

mod tmux {
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};

    use tempfile::TempDir;

    use crate::frame::terminal::Terminal;
    use crate::many_gaps;

    const VARIABLES: &str = "TERM=screen LC_ALL=C.UTF-8";

    /// Writes a recording that takes long to read: 600,000 gaps take 0.4 s, and the line appears
    /// after 0.5 s. So the line is visible for more than half of the time.
    fn big(folder: &TempDir) -> PathBuf {
        let path = folder.path().join("big.vmn");
        many_gaps::write(&path, 2_000_000, 5_000);
        path
    }

    fn explained(recording: &Path) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
        let output = command.arg("explain").arg(recording).output().unwrap();
        assert!(output.status.success());
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "a pipe");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn reading_a_big_recording_shows_how_far_it_is_and_nothing_of_that_stays() {
        let folder = tempfile::tempdir().unwrap();
        let recording = big(&folder);
        let command = format!("explain {}", recording.display());
        // The screen has more lines than the result.
        let terminal = Terminal::run(160, 200, VARIABLES, &command);
        let screen = terminal.see(" MB read, ");
        assert!(screen.is_ascii(), "{screen}");
        let line = screen
            .lines()
            .find(|line| line.contains(" MB read"))
            .unwrap();
        assert!(line.starts_with("vmnoise: ["), "{line}");
        assert!(line.contains("] ") && line.contains(" %  "), "{line}");
        assert!(line.ends_with(" left"), "{line}");
        let ended = terminal.ended();
        assert!(ended.contains("status 0"), "{ended}");
        assert!(!ended.contains("MB read"), "{ended}");
        let expected = explained(&recording);
        let shown: Vec<&str> = ended.lines().map(str::trim_end).collect();
        let expected: Vec<&str> = expected.lines().map(str::trim_end).collect();
        let begin = shown.iter().position(|line| *line == expected[0]).unwrap();
        assert_eq!(shown[begin..begin + expected.len()], expected);
    }

    #[test]
    fn ctrl_c_leaves_the_terminal_to_the_shell() {
        let folder = tempfile::tempdir().unwrap();
        let recording = big(&folder);
        let command = format!("compare {0} {0}", recording.display());
        let terminal = Terminal::run(80, 24, VARIABLES, &command);
        terminal.see(" MB read, ");
        terminal.press("C-z");
        terminal.wait("Stopped");
        terminal.press("fg\n");
        terminal.see(" MB read, ");
        terminal.press("C-c");
        let ended = terminal.ended();
        assert!(ended.contains("status 130"), "{ended}");
    }

    #[test]
    fn a_narrow_terminal_and_one_that_cannot_be_drawn_over_are_not_garbled() {
        let folder = tempfile::tempdir().unwrap();
        let recording = big(&folder);
        let command = format!("explain {} >/dev/null", recording.display());
        let terminal = Terminal::run(40, 24, VARIABLES, &command);
        let screen = terminal.see(" %  ");
        let lines = screen.lines().filter(|line| line.contains(" %  "));
        assert_eq!(lines.count(), 1, "{screen}");
        assert!(!terminal.ended().contains(" %  "));
        let terminal = Terminal::run(80, 24, "TERM=dumb", &command);
        let ended = terminal.ended();
        assert!(!ended.contains(" %  "), "{ended}");
    }

    #[test]
    fn of_a_pipe_it_reports_what_was_read() {
        let folder = tempfile::tempdir().unwrap();
        let recording = big(&folder);
        let file = recording.display();
        let command = format!(
            "explain /dev/stdin < <(head -c 9000000 {file}; sleep 1; tail -c +9000001 {file} \
             | head -c 1000000; sleep 2; tail -c +10000001 {file}) | head -1"
        );
        let terminal = Terminal::run(80, 24, VARIABLES, &command);
        let screen = terminal.see(" MB read");
        assert!(!screen.contains(" left"), "{screen}");
        let ended = terminal.ended();
        assert!(!ended.contains("MB read"), "{ended}");
    }

    #[test]
    fn a_run_without_a_live_view_reports_how_long_it_still_takes() {
        let command = "osnoise hist -c 1 --warm-up 2s -d 4s";
        let terminal = Terminal::run(100, 60, VARIABLES, command);
        terminal.see("warmed up ");
        let screen = terminal.see("measured ");
        assert!(screen.contains(" s left"), "{screen}");
        let ended = terminal.ended();
        assert!(!ended.contains("vmnoise: ["), "{ended}");
        assert!(ended.contains("status 0"), "{ended}");
    }

    #[test]
    fn an_exercise_and_a_count_of_exits_do_so_too() {
        for (command, words) in [
            ("microvm --exercise spin -c 1 -d 3s", "exercised "),
            ("exits hist -d 3s", "counted "),
            ("exits -d 3s | cat", "counted "),
        ] {
            let terminal = Terminal::run(100, 60, VARIABLES, command);
            let screen = terminal.see(words);
            assert!(screen.contains(" s left"), "{screen}");
            let ended = terminal.ended();
            assert!(!ended.contains("vmnoise: ["), "{ended}");
        }
    }

    #[test]
    fn a_run_that_nobody_looks_at_says_nothing() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
        command.args(["osnoise", "hist", "-c", "1", "-d", "2s"]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        let command = "osnoise top -q -c 1 -d 2s >/dev/null";
        let terminal = Terminal::run(80, 24, VARIABLES, command);
        let ended = terminal.ended();
        assert!(!ended.contains("measured"), "{ended}");
    }
}
