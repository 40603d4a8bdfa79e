//! Tests the trace of a polling thread. It must be the same from a recording, have the kernel's
//! formats, and name the cause of a stop.

mod root {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use serde_json::Value;
    use vmnoise_testbed::{binary, run_to_end};

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    /// Returns the lines of one event, each without the text up to the event's name.
    fn of<'a>(trace: &'a str, event: &'a str) -> impl Iterator<Item = &'a str> {
        let line = move |line: &'a str| Some(line.split_once(&format!(": {event}: "))?.1);
        trace.lines().filter_map(line)
    }

    /// Returns the number after the word `word`.
    fn number(line: &str, word: &str) -> u64 {
        let (_, rest) = line.split_once(&format!("{word} ")).unwrap();
        rest.split(' ').next().unwrap().parse().unwrap()
    }

    #[test]
    fn live_and_recorded_it_is_the_same_and_its_budgets_add_up() {
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("run.vmn");
        let path = recording.to_str().unwrap();
        let live = run_to_end(&["osnoise", "trace", "-c", "1", "-d", "2", "-o", path]).unwrap();
        assert_eq!(live.status.code(), Some(0));
        let replayed = run_to_end(&["explain", path, "--trace"]).unwrap();
        let live = text(live.stdout);
        assert_eq!(live, text(replayed.stdout));

        assert!(of(&live, "irq_noise").any(|line| line.starts_with("local_timer:")));
        let samples: Vec<&str> = of(&live, "sample_threshold").collect();
        let budgets: Vec<&str> = of(&live, "sample_budget").collect();
        assert!(!samples.is_empty());
        assert_eq!(samples.len(), budgets.len());
        for (sample, budget) in samples.iter().zip(budgets) {
            let (sum, parts) = budget.split_once(" ns = ").unwrap();
            let parts = parts.split(" + ").map(|part| {
                let (ns, _) = part.split_once(" ns ").unwrap();
                ns.parse::<u64>().unwrap()
            });
            assert_eq!(number(sample, "duration").to_string(), sum);
            assert_eq!(parts.sum::<u64>().to_string(), sum, "{budget}");
        }

        let summary = run_to_end(&["explain", path, "--format", "json"]).unwrap();
        let summary: Value = serde_json::from_slice(&summary.stdout).unwrap();
        assert_eq!(summary["cpus"][0]["gaps"], samples.len());
    }

    #[test]
    fn a_stop_reports_what_made_the_gap_and_saves_what_led_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let saved = folder.path().join("saved.txt");
        for mode in ["top", "hist", "trace"] {
            let option = format!("--trace={}", saved.display());
            let arguments = ["osnoise", mode, "-c", "1", "-d", "30", "-a", "2", &option];
            let run = run_to_end(&arguments).unwrap();
            assert_eq!(run.status.code(), Some(2));
            let report = text(run.stdout);
            for heading in ["Stopped by this gap:", "What to change:"] {
                assert!(report.contains(heading), "{report}");
            }
            let saved = std::fs::read_to_string(&saved).unwrap();
            let last = saved.lines().last().unwrap();
            assert!(last.contains("sample_budget"), "{last}");
        }
    }

    #[test]
    fn without_a_stop_nothing_is_saved() {
        let folder = tempfile::tempdir().unwrap();
        let run = Command::new(binary())
            .args(["osnoise", "-c", "1", "-d", "200ms", "-t"])
            .current_dir(&folder)
            .output()
            .unwrap();
        assert_eq!(run.status.code(), Some(0));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn a_reader_that_has_seen_enough_ends_the_run() {
        let mut run = Command::new(binary())
            .args(["osnoise", "trace", "-c", "1"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        let mut out = BufReader::new(run.stdout.take().unwrap());
        out.read_line(&mut first).unwrap();
        drop(out);
        assert!(first.starts_with("# tracer:"), "{first}");
        assert_eq!(run.wait().unwrap().code(), Some(0));
    }

    #[test]
    fn each_period_is_a_line_and_the_run_is_the_last() {
        let arguments = [
            "osnoise",
            "-c",
            "1",
            "-d",
            "1s",
            "-p",
            "200ms",
            "--json-lines",
        ];
        let run = text(run_to_end(&arguments).unwrap().stdout);
        let lines: Vec<Value> = run
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let (summary, periods) = lines.split_last().unwrap();
        assert_eq!(summary["schema"], "vmnoise.summary/1");
        assert!(periods.len() >= 3, "{} periods", periods.len());
        let mut reported_ns = 0;
        for period in periods {
            assert_eq!(period["schema"], "vmnoise.period/1");
            reported_ns += period["cpus"][0]["noise_ns"].as_u64().unwrap();
        }
        // Events after the last whole period are only in the summary.
        assert!(reported_ns <= summary["cpus"][0]["noise_ns"].as_u64().unwrap());
    }
}
