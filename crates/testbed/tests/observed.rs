//! Tests the observation of a thread during its own work. Tasks that take its CPU must be named
//! with the right times. While the thread sleeps, no time may be reported as lost.

mod root {
    use std::path::Path;
    use std::process::Command;
    use std::time::Duration;

    use serde_json::Value;
    use vmnoise_testbed::judge::assert_budgets_add_up;
    use vmnoise_testbed::{Burst, Disturber, VmnoiseRun, run_to_end, schedstat};
    use vmnoise_testkit::{TestProcess, wait_until};

    const CPU: u32 = 1;
    const BURST: Duration = Duration::from_micros(500);

    fn observe(pid: u32, more: &[&str]) -> Value {
        let pid = pid.to_string();
        let mut all = vec!["osnoise", "--pid", &pid, "--format", "json"];
        all.extend(more);
        let summary = VmnoiseRun::start(&all)
            .and_then(VmnoiseRun::summary)
            .unwrap();
        assert_budgets_add_up(&summary);
        summary
    }

    /// Returns how many times the burner took the CPU, and the total time in nanoseconds; `None` if
    /// the burner is not listed.
    fn burner(summary: &Value) -> Option<(u64, u64)> {
        let sources = summary["cpus"][0]["sources"].as_array()?;
        let burner = sources
            .iter()
            .find(|entry| entry["name"].as_str().unwrap().starts_with("lab-burner:"))?;
        assert_eq!(burner["share"], "thread");
        Some((burner["count"].as_u64()?, burner["total_ns"].as_u64()?))
    }

    /// Observes a process while 2 s of bursts run. Returns the summary, and the log of the bursts.
    fn observe_bursts(pid: u32) -> (Value, Vec<Burst>) {
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("run.vmn");
        let (pid, path) = (pid.to_string(), recording.to_str().unwrap());
        let all = [
            "osnoise", "--pid", &pid, "--format", "json", "--output", path,
        ];
        let run = VmnoiseRun::start(&all).unwrap();
        // The recording is created when the measurement begins.
        wait_until("the recording", || {
            std::fs::metadata(&recording).is_ok_and(|it| it.len() > 0)
        });
        let bursts = Disturber::bursts(CPU, 97, BURST, 194, &folder.path().join("log")).unwrap();
        let log = bursts.into_log().unwrap();
        let process = rustix::process::Pid::from_raw(run.pid() as i32).unwrap();
        rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
        let summary = run.summary().unwrap();
        assert_budgets_add_up(&summary);
        (summary, log)
    }

    /// Starts a process on the measured CPU that only sleeps.
    fn sleeper() -> TestProcess {
        let mut command = Command::new("taskset");
        let command = command.args(["-c", &CPU.to_string(), "sleep", "3600"]);
        let sleeper = TestProcess::start(command);
        std::thread::sleep(Duration::from_millis(300));
        sleeper
    }

    #[test]
    fn bursts_are_named_with_their_length_and_silence_is_not_blamed() {
        let busy = Disturber::busy(CPU).unwrap();
        let (summary, log) = observe_bursts(busy.pid());

        let (turns, total_ns) = burner(&summary).expect("the burner is named");
        let charged_ns: u64 = log.iter().map(|burst| burst.charged_ns).sum();
        println!("{turns} turns of {total_ns} ns, {charged_ns} ns charged");
        assert!(
            total_ns * 100 >= charged_ns * 85 && total_ns * 100 <= charged_ns * 105,
            "attributed {total_ns} ns, charged {charged_ns} ns"
        );
        let longest_ns = summary["worst"][0]["dur_ns"].as_u64().unwrap();
        assert!(longest_ns >= BURST.as_nanos() as u64, "{longest_ns} ns");

        let quiet = observe(busy.pid(), &["--duration", "1s"]);
        assert_eq!(burner(&quiet), None);
        let cpu = &quiet["cpus"][0];
        assert_eq!(cpu["cpu"], CPU);
        for unknown in ["hw", "hv_or_hw", "blocked"] {
            assert!(cpu["shares_ns"][unknown].is_null(), "{unknown}");
        }
        let runtime_ns = cpu["runtime_ns"].as_u64().unwrap();
        assert!(
            (900_000_000..1_500_000_000).contains(&runtime_ns),
            "{runtime_ns} ns"
        );
    }

    #[test]
    fn a_thread_that_sleeps_loses_nothing() {
        let sleeper = sleeper();
        let (summary, _) = observe_bursts(sleeper.id());
        let cpu = &summary["cpus"][0];
        assert_eq!(cpu["gaps"], 0);
        // The process slept for the whole run. The two lengths come from two clocks, so a small
        // difference may remain.
        assert!(cpu["runtime_ns"].as_u64().unwrap() < 100_000, "{cpu}");
        assert_eq!(cpu["sources"], Value::Array(Vec::new()));
    }

    #[test]
    fn a_thread_that_sleeps_now_and_then_has_run_for_as_long_as_it_was_runnable() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("bursts");
        let bursts = Disturber::bursts(CPU, 97, BURST, 600, &log).unwrap();
        let threads = schedstat::threads(bursts.pid()).unwrap();
        let (tid, _) = threads
            .iter()
            .find(|(_, comm)| comm == "lab-burner")
            .unwrap();
        let before = schedstat::read(bursts.pid(), *tid).unwrap();
        let summary = observe(*tid, &["--duration", "2s"]);
        let after = schedstat::read(bursts.pid(), *tid).unwrap();
        let cpu = &summary["cpus"][0];
        let runtime_ns = cpu["runtime_ns"].as_u64().unwrap();
        let around_ns =
            after.on_cpu_ns - before.on_cpu_ns + after.run_delay_ns - before.run_delay_ns;
        // The scheduler's time on the CPU does not include steal time of the hypervisor.
        let stolen_ns = cpu["steal_clock_ns"].as_u64().unwrap_or(0);
        println!(
            "runnable {runtime_ns} ns, {around_ns} ns by the scheduler from before to after, \
             {stolen_ns} ns stolen"
        );
        assert!(runtime_ns <= around_ns + stolen_ns + around_ns / 20);
        let bursts_ns = 97 * 2 * BURST.as_nanos() as u64;
        assert!(runtime_ns > bursts_ns / 2, "{runtime_ns} ns");
        assert!(cpu["noise_ns"].as_u64().unwrap() < runtime_ns);
    }

    #[test]
    fn the_recording_reports_the_same_and_so_does_pyarrow() {
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("run.vmn");
        let path = recording.to_str().unwrap();
        let busy = Disturber::busy(CPU).unwrap();
        let live = observe(busy.pid(), &["--duration", "2s", "--output", path]);
        let output = run_to_end(&["explain", path, "--format", "json"]).unwrap();
        let replayed: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(live, replayed);
        assert!(live["cpus"][0]["gaps"].as_u64().unwrap() > 0);

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
        let faults = String::from_utf8_lossy(&oracle.stderr);
        assert!(oracle.status.success(), "{words}{faults}");
    }

    #[test]
    fn a_thread_that_ends_leaves_the_result_of_the_time_before() {
        let busy = Disturber::busy(CPU).unwrap();
        let pid = busy.pid().to_string();
        let run =
            VmnoiseRun::start(&["osnoise", "--pid", &pid, "-d", "30", "--format", "json"]).unwrap();
        std::thread::sleep(Duration::from_secs(4));
        drop(busy);
        let (status, stdout, stderr) = run.output().unwrap();
        assert_eq!(status, Some(0), "{stderr}");
        assert!(
            stderr.contains(&format!("thread {pid} (lab-disturb) has ended")),
            "{stderr}"
        );
        let summary: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(summary["finish_reason"], "failed");
        assert_eq!(summary["options"]["observed"][0]["comm"], "lab-disturb");
        assert!(summary["cpus"][0]["runtime_ns"].as_u64().unwrap() > 0);
    }

    #[test]
    fn two_of_a_name_on_one_cpu_are_refused_by_their_ids() {
        let pair = [Disturber::busy(CPU).unwrap(), Disturber::busy(CPU).unwrap()];
        let refused = run_to_end(&["osnoise", "--comm", "lab-disturb", "-d", "1"]).unwrap();
        let stderr = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(129), "{stderr}");
        for one in &pair {
            assert!(stderr.contains(&one.pid().to_string()), "{stderr}");
        }
        drop(pair);
        let alone = run_to_end(&["osnoise", "--comm", "ksoftirqd/1", "-d", "1"]).unwrap();
        let text = String::from_utf8(alone.stdout).unwrap();
        assert!(text.lines().any(|line| line.starts_with("  1 #")), "{text}");
    }
}
