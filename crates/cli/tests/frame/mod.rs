//! Tests of the frame in a real terminal: a tmux server runs the binary, presses keys, resizes,
//! stops and continues it, and hangs up. Its screens are snapshots with masked numbers.

mod mask;
mod progress;
mod terminal;

mod tmux {
    use super::mask::mask;
    use super::terminal::Terminal;

    const OSNOISE: &str = "osnoise top -c 1";

    #[test]
    fn keys_choose_filter_explain_and_end() {
        let terminal = Terminal::run(80, 24, "TERM=screen LC_ALL=C.UTF-8", OSNOISE);
        let screen = terminal.wait("longest: ");
        insta::assert_snapshot!("osnoise_80x24", mask(&screen));
        terminal.press("?");
        insta::assert_snapshot!("help_80x24", mask(&terminal.wait("end the run")));
        terminal.press("Escape");
        terminal.press("Space");
        terminal.wait("[frozen]");
        terminal.press("Tab");
        terminal.press("Enter");
        terminal.wait("Esc close");
        terminal.press("Escape");
        terminal.press("/");
        terminal.press("no such name");
        terminal.wait("/no such name_");
        terminal.press("Enter");
        terminal.wait(", 0 of ");
        terminal.press("q");
        let ended = terminal.ended();
        assert!(ended.contains("Operating System Noise"), "{ended}");
        assert!(ended.contains("status 0"), "{ended}");
    }

    /// The name of a task contains control characters that end lines and clear screens; the frame
    /// must show it as a name.
    #[test]
    fn a_hostile_name_stays_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("e\u{1b}[2J\nFAKE 0");
        std::os::unix::fs::symlink("/bin/bash", &program).unwrap();
        let busy = "exec 9<> <(:); while :; do i=0; \
                    while [ $i -lt 20000 ]; do i=$((i+1)); done; read -t 0.002 -u 9; done";
        // The task runs on the measured CPU, like everything in this test.
        let mut task = std::process::Command::new(program)
            .args(["-c", busy])
            .spawn()
            .unwrap();
        let pid = task.id().to_string();
        let pinned = std::process::Command::new("taskset")
            .args(["-p", "-c", "1", &pid])
            .output()
            .unwrap();
        let terminal = Terminal::run(120, 40, "TERM=screen LC_ALL=C.UTF-8", OSNOISE);
        let screen = pinned.status.success().then(|| terminal.wait("␊FAKE 0"));
        terminal.press("q");
        let ended = terminal.ended();
        task.kill().unwrap();
        task.wait().unwrap();
        for text in [screen.expect("CPU 1 can be had"), ended] {
            let forged = text
                .lines()
                .find(|line| line.trim_start().starts_with("FAKE"));
            assert_eq!(forged, None, "{text}");
        }
    }

    #[test]
    fn another_size_is_drawn_at_once_and_a_tiny_one_says_so() {
        let terminal = Terminal::run(80, 24, "TERM=screen LC_ALL=C.UTF-8", OSNOISE);
        terminal.wait("longest: ");
        terminal.resize(20, 5);
        terminal.wait("needs 60x16");
        terminal.resize(80, 24);
        let screen = terminal.wait("longest: ");
        insta::assert_snapshot!("osnoise_80x24", mask(&screen));
        terminal.resize(120, 40);
        let screen = terminal.wait("longest: ");
        insta::assert_snapshot!("osnoise_120x40", mask(&screen));
        terminal.press("C-c");
        assert!(terminal.ended().contains("status 0"));
    }

    #[test]
    fn without_colour_and_letters_it_is_the_same_in_ascii() {
        let terminal = Terminal::run(80, 24, "TERM=screen LC_ALL=C NO_COLOR=1", OSNOISE);
        let screen = terminal.wait("longest: ");
        assert!(screen.is_ascii(), "{screen}");
        let coloured = terminal.with_colours();
        // 39 resets the colour.
        let colours = coloured.replace("\x1b[39m", "");
        assert!(!colours.contains("\x1b[3"), "{coloured:?}");
        terminal.press("q");
        terminal.ended();
    }

    #[test]
    fn stopped_it_gives_the_terminal_back_and_goes_on() {
        let terminal = Terminal::run(80, 24, "TERM=screen LC_ALL=C.UTF-8", OSNOISE);
        terminal.wait("longest: ");
        terminal.press("C-z");
        terminal.wait_shell();
        terminal.press("fg\n");
        terminal.wait("longest: ");
        terminal.signal("TSTP");
        terminal.wait_shell();
        terminal.press("fg\n");
        terminal.wait("longest: ");
        terminal.press("q");
        assert!(terminal.ended().contains("status 0"));
    }

    #[test]
    fn in_the_background_it_waits_for_the_terminal() {
        let terminal = Terminal::run(80, 24, "TERM=screen LC_ALL=C.UTF-8", OSNOISE);
        terminal.wait("longest: ");
        terminal.press("C-z");
        terminal.wait_shell();
        // As for an editor: it stops again when it has to draw.
        terminal.press("clear; bg; sleep 1; jobs\n");
        let screen = terminal.wait("Stopped");
        assert!(!screen.contains("longest: "), "{screen}");
        terminal.press("fg\n");
        terminal.wait("longest: ");
        terminal.signal("STOP");
        terminal.wait("Stopped");
        terminal.press("fg\n");
        let screen = terminal.wait("longest: ");
        assert!(!screen.contains("Stopped"), "all is drawn again: {screen}");
        terminal.press("q");
        assert!(terminal.ended().contains("status 0"));
    }

    #[test]
    fn a_signal_ends_it_as_q_does() {
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("ended.vmn");
        let command = format!("{OSNOISE} -o {}", recording.display());
        let terminal = Terminal::run(80, 24, "TERM=screen LC_ALL=C.UTF-8", &command);
        terminal.wait("longest: ");
        terminal.signal("TERM");
        let ended = terminal.ended();
        assert!(ended.contains("Operating System Noise"), "{ended}");
        assert!(ended.contains("status 0"), "{ended}");
        // The terminal echoes and breaks lines as before.
        terminal.press("stty -a | grep -c ' icanon .* echo '\n");
        let modes = terminal.wait(" echo ");
        assert!(modes.lines().any(|line| line.trim() == "1"), "{modes}");
        let mut explain = std::process::Command::new(env!("CARGO_BIN_EXE_vmnoise"));
        let output = explain.arg("explain").arg(&recording).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "it is whole");
    }

    #[test]
    fn what_goes_wrong_meanwhile_is_a_line_of_the_frame_and_said_again() {
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("small.vmn");
        let binary = env!("CARGO_BIN_EXE_vmnoise");
        // Simulates a full disk: no file may be longer than 8 KiB.
        let limits = "trap '' XFSZ; ulimit -f 8";
        let command = format!(
            "({limits}; TERM=screen {binary} {OSNOISE} -o {})",
            recording.display()
        );
        let terminal = Terminal::shell(100, 24, &command);
        let screen = terminal.wait("vmnoise osnoise  0:00:03");
        assert!(screen.starts_with(" vmnoise osnoise"), "{screen}");
        let last = screen.trim_end().lines().last().unwrap();
        assert!(
            last.starts_with("cannot write to the recording"),
            "{screen}"
        );
        terminal.press("q");
        let ended = terminal.ended();
        let complaint = "vmnoise: cannot write to the recording, which is readable";
        assert!(ended.contains(complaint), "{ended}");
        assert!(ended.contains("status 1"), "{ended}");
    }

    #[test]
    fn commands_of_the_user_write_into_the_frame_and_not_over_it() {
        let command = format!(
            "{OSNOISE} -s 1us --on-threshold shell,command='echo heard; sleep 60' \
             --on-threshold continue"
        );
        let terminal = Terminal::run(80, 24, "TERM=screen LC_ALL=C.UTF-8", &command);
        let screen = terminal.wait("longest: ");
        assert!(!screen.contains("heard"), "{screen}");
        let loud = command.replace("; sleep 60", " >&2");
        drop(terminal);
        let terminal = Terminal::run(80, 24, "TERM=screen LC_ALL=C.UTF-8", &loud);
        let screen = terminal.wait("longest: ");
        let lines: Vec<&str> = screen.trim_end().lines().collect();
        let said = lines.iter().filter(|line| line.contains("heard"));
        assert_eq!(said.count(), 1, "{screen}");
        assert!(lines[0].starts_with(" vmnoise osnoise"), "{screen}");
        assert_eq!(*lines.last().unwrap(), "heard", "{screen}");
        terminal.press("q");
        assert!(terminal.ended().contains("vmnoise: heard"));
    }

    #[test]
    fn a_lost_terminal_ends_the_run_and_keeps_the_recording() {
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("lost.vmn");
        let command = format!("{OSNOISE} -o {}", recording.display());
        let terminal = Terminal::run(80, 24, "TERM=screen", &command);
        terminal.wait("longest: ");
        let pid = terminal.pid();
        terminal.hang_up();
        pid.wait_for_end();
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_vmnoise"))
            .arg("explain")
            .arg(&recording)
            .output()
            .unwrap();
        let (text, error) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(output.status.success(), "{error}");
        assert!(text.contains("Where the noise of CPU 1 went"), "{text}");
        assert!(!error.contains("cut off"), "{error}");
    }

    #[test]
    fn a_terminal_that_cannot_be_drawn_over_gets_what_it_always_got() {
        let terminal = Terminal::run(100, 24, "TERM=dumb", "microvm -c 1 -d 3s");
        terminal.wait("largest shares");
        let ended = terminal.ended();
        assert!(ended.contains("status 0"), "{ended}");
        assert!(!ended.contains("q end"), "{ended}");
    }

    #[test]
    fn timerlat_has_the_same_frame() {
        let terminal = Terminal::run(80, 24, "TERM=screen LC_ALL=C.UTF-8", "timerlat top -c 1");
        let screen = terminal.wait("longest: ");
        insta::assert_snapshot!("timerlat_80x24", mask(&screen));
        terminal.press("q");
        assert!(terminal.ended().contains("status 0"));
    }

    #[test]
    fn exits_has_the_same_frame() {
        let mut vm = std::process::Command::new(env!("CARGO_BIN_EXE_vmnoise"))
            .args(["microvm", "-c", "1", "-d", "1h"])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let command = format!("exits --vm {}", vm.id());
        // A VM is known only once it has vCPUs.
        std::thread::sleep(std::time::Duration::from_secs(3));
        let terminal = Terminal::run(80, 24, "TERM=screen LC_ALL=C.UTF-8", &command);
        let screen = terminal.wait("(all)");
        vm.kill().unwrap();
        vm.wait().unwrap();
        assert!(screen.contains("The longest exits"), "{screen}");
        // The run ends with the VM, and the message about it remains.
        let ended = terminal.ended();
        assert!(ended.contains("has ended; the result covers"), "{ended}");
        assert!(ended.contains("status 0"), "{ended}");
    }

    #[test]
    fn microvm_has_the_same_frame() {
        let terminal = Terminal::run(80, 24, "TERM=screen LC_ALL=C.UTF-8", "microvm -c 1 -d 1h");
        let screen = terminal.wait("longest: ");
        insta::assert_snapshot!("microvm_80x24", mask(&screen));
        terminal.press("q");
        let ended = terminal.ended();
        assert!(ended.contains("status 0"), "{ended}");
    }
}
