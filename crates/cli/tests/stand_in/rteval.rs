//! Test of the commands that rteval's timerlat module issues, and of its parser.

mod root {
    use crate::stand_in::readers::timerlat;
    use crate::stand_in::{linked, run};

    /// Runs rteval's command with a duration (rteval sends SIGINT instead) and additional options.
    fn hist(more: &[&str]) -> (Option<i32>, String) {
        let folder = linked("rtla");
        let issued = [
            "timerlat", "hist", "-p1000", "-P", "f:95", "-u", "-c0", "-E3500",
        ];
        let issued = [
            &issued[..],
            &["--no-summary", "--no-aa", "--dma-latency=0"],
            more,
        ];
        let output = run(&folder, "./rtla".into(), &issued.concat());
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    }

    #[test]
    fn it_reads_the_histogram() {
        let (status, text) = hist(&["-d", "1"]);
        assert_eq!(status, Some(0), "{text}");
        let read = timerlat(&text);
        assert!(read.stopped.is_empty(), "{text}");
        assert!(read.buckets.values().all(|row| row.len() == 3), "{text}");
        let user: u64 = read.buckets.values().map(|row| row[2]).sum();
        // One second with periods of a millisecond, and the extra time for the end on a loaded
        // machine.
        assert!((1..2_000).contains(&user), "{text}");
    }

    #[test]
    fn a_stop_has_its_line_and_its_trace() {
        let (status, text) = hist(&["-d", "5", "-T1", "-t=trace.txt"]);
        assert_eq!(status, Some(2), "{text}");
        for line in [
            "rtla timerlat hit stop tracing",
            "  Saving trace to trace.txt",
        ] {
            assert!(text.lines().any(|it| it == line), "{text}");
        }
        assert!(!timerlat(&text).buckets.is_empty(), "{text}");
    }

    /// Older releases of rteval leave the analysis on.
    #[test]
    fn it_reads_what_stopped_the_run() {
        let folder = linked("rtla");
        let words = [
            "timerlat",
            "hist",
            "-c0",
            "-u",
            "--no-summary",
            "-T1",
            "-d5",
        ];
        let output = run(&folder, "./rtla".into(), &words);
        let text = String::from_utf8(output.stdout).unwrap();
        let read = timerlat(&text);
        let of_cpu = read.stopped.get(&0).unwrap_or_else(|| panic!("{text}"));
        let (latency_us, share) = of_cpu["Thread latency"];
        assert_eq!(share, Some(100.0), "{text}");
        // A part is not longer than the whole, which is rounded to 10 ns; the interrupt may come a
        // little early.
        for name in ["IRQ handler delay", "Timerlat IRQ duration"] {
            assert!(of_cpu[name].0 <= latency_us + 0.01, "{name}: {text}");
        }
        for (who, us) in &read.listed {
            assert!(
                who.contains(':') && *us <= latency_us + 0.01,
                "{who}: {text}"
            );
        }
    }
}
