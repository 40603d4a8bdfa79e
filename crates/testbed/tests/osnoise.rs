//! Tests the culprits of `vmnoise osnoise`. While a known cause takes the CPU of a polling thread,
//! results must name the cause with the right time. Without the cause, results must not blame it.

mod root {
    use std::path::Path;
    use std::process::Command;
    use std::time::Duration;

    use serde_json::Value;
    use vmnoise_testbed::judge::assert_budgets_add_up;
    use vmnoise_testbed::{Disturber, VmnoiseRun, run_to_end};

    const CPU: u32 = 1;
    const BURST: Duration = Duration::from_micros(500);

    fn osnoise(arguments: &[&str]) -> Value {
        let mut all = vec!["osnoise", "--cpus", "1", "--format", "json"];
        all.extend(arguments);
        VmnoiseRun::start(&all)
            .and_then(VmnoiseRun::summary)
            .unwrap()
    }

    fn threads(summary: &Value) -> impl Iterator<Item = (&str, u64, u64)> {
        let sources = summary["cpus"][0]["sources"].as_array().unwrap().iter();
        sources
            .filter(|entry| entry["share"] == "thread")
            .map(|entry| {
                let number = |key: &str| entry[key].as_u64().unwrap();
                (
                    entry["name"].as_str().unwrap(),
                    number("count"),
                    number("total_ns"),
                )
            })
    }

    #[test]
    fn bursts_are_thread_noise_of_the_right_length_and_silence_is_not_blamed() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("bursts");
        // The bursts take 2 s, and all of them are within the run.
        let bursts = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(700));
            let bursts = Disturber::bursts(CPU, 97, BURST, 194, &log);
            let bursts = bursts.unwrap();
            (bursts.source().unwrap(), bursts.into_log().unwrap())
        });
        let summary = osnoise(&["--duration", "4s"]);
        let (source, log) = bursts.join().unwrap();

        assert_budgets_add_up(&summary);
        let (_, count, total_ns) = threads(&summary)
            .find(|(name, ..)| *name == source)
            .expect("the burner is named");
        // If a burst is late, the next bursts follow it without a sleep, and count as one turn.
        const SLEEPLESS_TSC: u64 = 100_000;
        let sleeps = log
            .windows(2)
            .filter(|pair| pair[1].begin_tsc - pair[0].end_tsc > SLEEPLESS_TSC);
        let turns = 1 + sleeps.count();
        // If the kernel hid a switch, one turn has no name. At most one turn in 20 may be hidden.
        // With more, the test would pass even if no turn had a name.
        let hidden = summary["losses"]["unpaired"].as_u64().unwrap();
        assert!(
            hidden as usize * 20 < turns,
            "{turns} turns, {hidden} hidden"
        );
        assert!(
            (count + hidden) as usize >= turns,
            "{count} turns of {turns}, {hidden} hidden"
        );
        // The burner's time is at least the time of its bursts, without interrupts and the time
        // that the host below took. It is at most the time that the scheduler charged. The burner's
        // set-up before the first burst and its end after the last burst together take less than
        // two bursts.
        let shares = &summary["cpus"][0]["shares_ns"];
        let others =
            ["nmi", "irq", "softirq", "steal"].map(|share| shares[share].as_u64().unwrap_or(0));
        let others_ns: u64 = others.iter().sum();
        let charged = || log.iter().map(|burst| burst.charged_ns);
        let longest_ns = charged().max().unwrap();
        let burned_ns = BURST.as_nanos() as u64 * log.len() as u64;
        let most_ns = charged().sum::<u64>() + 2 * longest_ns;
        let reported = format!(
            "attributed {total_ns} ns, burned {burned_ns} ns, charged {most_ns} ns at most, others \
             {others_ns} ns, {hidden} hidden"
        );
        println!("{reported}");
        assert!(total_ns <= most_ns, "{reported}");
        assert!(
            total_ns + others_ns + hidden * longest_ns >= burned_ns,
            "{reported}"
        );

        let quiet = osnoise(&["--duration", "1s"]);
        assert_budgets_add_up(&quiet);
        assert!(!threads(&quiet).any(|(name, ..)| name.starts_with("lab-")));
    }

    #[test]
    fn the_recording_reports_the_same_and_so_does_pyarrow() {
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("run.vmn");
        let path = recording.to_str().unwrap();
        let live = osnoise(&["--duration", "2s", "--output", path]);
        let output = run_to_end(&["explain", path, "--format", "json"]).unwrap();
        assert_eq!(
            live,
            serde_json::from_slice::<Value>(&output.stdout).unwrap()
        );

        let summary = folder.path().join("summary.json");
        std::fs::write(&summary, &output.stdout).unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let oracle = Command::new("python3")
            .arg(root.join("crates/recording/tests/oracle/summary.py"))
            .args([&recording, &summary])
            .env("PYTHONPATH", root.join("target/python"))
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&oracle.stdout);
        assert!(
            oracle.status.success(),
            "{words}{}",
            String::from_utf8_lossy(&oracle.stderr)
        );
    }

    #[test]
    fn half_a_runtime_is_half_a_period_and_a_limit_stops_it() {
        let half = osnoise(&["--duration", "2s", "--period", "100ms", "--runtime", "50ms"]);
        let runtime_ns = half["cpus"][0]["runtime_ns"].as_u64().unwrap();
        assert!(
            (800_000_000..1_150_000_000).contains(&runtime_ns),
            "{runtime_ns} ns"
        );

        let stopped = run_to_end(&["osnoise", "-c", "1", "-d", "30", "-s", "2"]).unwrap();
        assert_eq!(stopped.status.code(), Some(2));
        let text = String::from_utf8(stopped.stdout).unwrap();
        assert!(text.starts_with("Stopped by this gap:"), "{text}");
    }

    #[test]
    fn the_table_is_that_of_rtla() {
        let output = run_to_end(&["osnoise", "-c", "1", "-d", "1"]).unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[1].starts_with("duration:   0 00:00:01 | time is in us"),
            "{text}"
        );
        let heads: Vec<&str> = lines[2].split_whitespace().collect();
        let rtla =
            "CPU Period Runtime Noise % CPU Aval Max Noise Max Single HW NMI IRQ Softirq Thread";
        assert!(heads.join(" ").starts_with(rtla), "{text}");
        let cells: Vec<&str> = lines[3].split_whitespace().collect();
        assert_eq!(cells[0], "1");
        let noise_us: u64 = cells[3].parse().unwrap();
        assert!(noise_us > 0);
    }
}
