//! Tests of the evidence that `-s` and `--dump-tasks` of rtla timerlat keep when a limit stops the
//! run.

mod root {
    use crate::stand_in::{linked, run};

    fn stopped(more: &[&str]) -> String {
        let folder = linked("rtla");
        let words = [&["timerlat", "top", "-c0", "-T1", "-d10", "-q"], more].concat();
        let output = run(&folder, "./rtla".into(), &words);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        text
    }

    const HEAD: &str = "    Blocking thread stack trace";

    /// Each wake-up of a task comes from an interrupt of its timer.
    #[test]
    fn the_stack_is_that_of_the_timers_interrupt() {
        let text = stopped(&["-s1"]);
        let mut lines = text.lines().skip_while(|line| *line != HEAD).skip(1);
        let frames: Vec<&str> = lines
            .by_ref()
            .map_while(|line| line.strip_prefix("\t\t-> "))
            .collect();
        assert!(frames.contains(&"hrtimer_interrupt"), "{text}");
        // The functions of the wake-up itself are not part of the stack.
        assert!(!frames.contains(&"try_to_wake_up"), "{text}");
    }

    #[test]
    fn a_latency_below_the_limit_has_no_stack() {
        let text = stopped(&["-s60s"]);
        assert!(
            text.contains("hit stop tracing") && !text.contains(HEAD),
            "{text}"
        );
        assert!(!stopped(&[]).contains(HEAD));
    }

    /// Without BPF, the time and length of the interrupt are unknown.
    #[test]
    fn what_was_not_seen_has_no_figure() {
        let text = stopped(&["--no-trace"]);
        for name in [
            "  IRQ handler delay:",
            "  IRQ latency:",
            "  Timerlat IRQ duration:",
        ] {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            assert!(line.ends_with("        - us"), "{text}");
        }
    }

    /// At that instant the task read the clock, so no other task had its CPU.
    #[test]
    fn the_task_itself_has_its_cpu() {
        let text = stopped(&["--dump-tasks"]);
        let tasks = text.split_once("Printing CPU tasks:\n").unwrap().1;
        let tasks: Vec<&str> = tasks.lines().take_while(|line| !line.is_empty()).collect();
        let of_cpu = |cpu: &str| tasks.iter().filter(|line| line.contains(cpu)).count();
        assert_eq!(of_cpu("[000]"), 1, "{text}");
        assert!(tasks[0].contains(" vmnoise-timer0:"), "{text}");
    }
}
