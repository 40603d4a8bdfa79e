//! Tests the culprits of `vmnoise timerlat`. While a known cause delays a periodic task, results
//! must name the cause with the right time. Without the cause, results must not blame it.

mod root {
    use std::time::Duration;

    use serde_json::Value;
    use vmnoise_testbed::judge::assert_latencies_add_up;
    use vmnoise_testbed::{Disturber, VmnoiseRun, run_to_end};

    const CPU: u32 = 1;

    /// Runs `timerlat` at a lower priority than the burner.
    fn timerlat(arguments: &[&str]) -> Value {
        let mut all = vec!["timerlat", "-c", "1", "-P", "f:40", "--format", "json"];
        all.extend(arguments);
        VmnoiseRun::start(&all)
            .and_then(VmnoiseRun::summary)
            .unwrap()
    }

    fn number(value: &Value) -> u64 {
        value.as_u64().unwrap_or_else(|| panic!("{value}"))
    }

    fn burner(result: &Value) -> Option<&Value> {
        let sources = result["cpus"][0]["sources"].as_array().unwrap();
        let is_burner =
            |source: &&Value| source["name"].as_str().unwrap().starts_with("lab-burner");
        sources.iter().find(is_burner)
    }

    #[test]
    fn a_hog_is_named_with_its_length_and_silence_is_not_blamed() {
        const BURST_NS: u64 = 300_000;
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("bursts");
        // The bursts take 2 s, and all of them are within the run.
        let bursts = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(700));
            let burst = Duration::from_nanos(BURST_NS);
            let bursts = Disturber::bursts(CPU, 97, burst, 194, &log).unwrap();
            (bursts.source().unwrap(), bursts.into_log().unwrap())
        });
        let result = timerlat(&["--duration", "4s"]);
        let (source, log) = bursts.join().unwrap();
        assert_latencies_add_up(&result);
        let burner = burner(&result).expect("the burner is named");
        assert_eq!(burner["name"], source);
        assert_eq!(burner["share"], "thread");
        // About 58 wake-ups fall into a burst. The wake-up with the longest latency falls near the
        // start of a burst. If a burst is late, the next bursts follow it in the same turn.
        let charged = || log.iter().map(|burst| burst.charged_ns);
        let (total_ns, max_ns) = (number(&burner["total_ns"]), number(&burner["max_ns"]));
        assert!(number(&burner["count"]) >= 10, "{burner}");
        assert!(max_ns >= BURST_NS * 6 / 10, "{burner}");
        assert!(total_ns <= charged().sum(), "{burner}");

        let quiet = timerlat(&["--duration", "1s"]);
        assert_latencies_add_up(&quiet);
        assert!(self::burner(&quiet).is_none(), "{quiet}");
    }

    #[test]
    fn the_steps_of_nearly_all_wake_ups_are_seen_and_in_order() {
        let result = timerlat(&["--duration", "2s"]);
        let cpu = &result["cpus"][0];
        let count = number(&cpu["count"]);
        let missed = number(&cpu["missed"]);
        // Each period has a wake-up or counts as missed.
        assert!((1_500..=2_500).contains(&(count + missed)), "{cpu}");
        assert!(number(&cpu["incomplete"]) * 10 <= count, "{cpu}");
        for figure in ["min_ns", "mean_ns"] {
            let of = |context: &str| number(&cpu[context][figure]);
            assert!(
                of("irq") <= of("thread") && of("thread") <= of("user"),
                "{cpu}"
            );
        }
        let corrected = number(&cpu["corrected"]["count"]);
        assert!(corrected >= count, "{cpu}");
    }

    #[test]
    fn the_recording_reports_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("run.vmn");
        let path = recording.to_str().unwrap();
        let live = timerlat(&["--duration", "1s", "--output", path]);
        let output = run_to_end(&["explain", path, "--format", "json"]).unwrap();
        let replayed: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(live, replayed);
        let trace = run_to_end(&["explain", path, "--trace"]).unwrap();
        let trace = String::from_utf8(trace.stdout).unwrap();
        for context in ["irq", "thread", "user-ret"] {
            let lines = trace
                .lines()
                .filter(|line| line.contains(&format!("context {context:>6} timer_latency ")));
            assert!(lines.count() >= 500, "{context}");
        }
    }

    #[test]
    fn a_limit_stops_it_and_is_analyzed_as_rtla_does() {
        let stopped = run_to_end(&["timerlat", "-c", "1", "-d", "30", "-T", "2"]).unwrap();
        assert_eq!(stopped.status.code(), Some(2));
        let text = String::from_utf8(stopped.stdout).unwrap();
        assert!(
            text.starts_with("## CPU 1 hit stop tracing, analyzing it ##\n"),
            "{text}"
        );
        assert!(text.contains("\n  Thread latency:\t\t\t\t\t"), "{text}");
        assert!(text.contains(" us (100%)\n"), "{text}");
    }

    #[test]
    fn the_lines_and_files_of_cyclictest_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (json, hist, cdf) = (file("json"), file("hist"), file("cdf"));
        let arguments = [
            "timerlat",
            "-c",
            "1",
            "-d",
            "1",
            "--format",
            "cyclictest",
            "--json",
            &json,
            "--histogram",
            "1000",
            "--histfile",
            &hist,
            "--cdf",
            &cdf,
        ];
        let output = run_to_end(&arguments).unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with("T: 0 ("))
            .unwrap();
        assert!(line.contains(" P:95 I:1000 C:"), "{text}");
        let json: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
        let cycles = number(&json["thread"]["0"]["cycles"]);
        assert_eq!(
            (number(&json["file_version"]), number(&json["num_threads"])),
            (1, 1)
        );
        let hist = std::fs::read_to_string(hist).unwrap();
        let counted: u64 = hist
            .lines()
            .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))
            .map(|line| {
                line.split_whitespace()
                    .nth(1)
                    .unwrap()
                    .parse::<u64>()
                    .unwrap()
            })
            .sum();
        let over = hist
            .lines()
            .find_map(|line| line.strip_prefix("# Histogram Overflows: "));
        assert_eq!(counted + over.unwrap().parse::<u64>().unwrap(), cycles);
        let cdf = std::fs::read_to_string(cdf).unwrap();
        let felt = cdf
            .lines()
            .rfind(|line| line.starts_with("1 felt "))
            .unwrap();
        assert!(felt.ends_with(" 1.000000000"), "{felt}");
    }
}
