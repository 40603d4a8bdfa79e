//! Tests that recorded data are never lost, that attached programs never remain, and that each bad
//! input causes one clear line.

mod kvm {
    use std::path::Path;
    use std::process::Command;
    use std::time::Duration;

    use rustix::process::Signal;
    use serde_json::Value;
    use vmnoise_testbed::footprint::OpenDescriptors;
    use vmnoise_testbed::{VmnoiseRun, run_to_end, schedstat};

    const CPU: u32 = 1;

    fn explain(recording: &Path, format: &str) -> String {
        let path = recording.to_str().unwrap();
        let output = run_to_end(&["explain", path, "--format", format]).unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn sigkill_leaves_no_process_no_program_and_a_readable_recording() {
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("killed.vmn");
        let run = VmnoiseRun::microvm(
            CPU,
            &["--duration", "30s", "-o", recording.to_str().unwrap()],
        )
        .unwrap();
        let pid = run.pid();
        std::thread::sleep(Duration::from_millis(2500));
        // Other programs may appear and disappear, so only the run's own programs are compared.
        let held = OpenDescriptors::by(pid).unwrap();
        assert!(!held.programs.is_empty(), "no program is loaded: {held:?}");
        drop(run); // SIGKILL
        assert!(schedstat::threads(pid).is_err(), "a thread is left");
        assert_eq!(held.left_for_good().unwrap(), Vec::<String>::new());
        let summary: Value = serde_json::from_str(&explain(&recording, "json")).unwrap();
        assert_eq!(summary["complete"], false);
        let runtime_ns = summary["cpus"][0]["runtime_ns"].as_u64().unwrap();
        assert!(
            runtime_ns >= 900_000_000,
            "{runtime_ns} ns of 2.5 s read back"
        );
        assert!(summary["cpus"][0]["gaps"].as_u64().unwrap() > 0);
    }

    #[test]
    fn the_recording_reports_the_same_byte_for_byte_and_so_does_pyarrow() {
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("run.vmn");
        let run = VmnoiseRun::microvm(
            CPU,
            &["--duration", "2s", "-o", recording.to_str().unwrap()],
        )
        .unwrap();
        let (status, live, stderr) = run.output().unwrap();
        assert_eq!(status, Some(0), "{stderr}");
        let replayed = explain(&recording, "json");
        assert_eq!(live, replayed);

        let summary = folder.path().join("summary.json");
        std::fs::write(&summary, replayed).unwrap();
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let oracle = Command::new("python3")
            .arg(format!("{root}/crates/recording/tests/oracle/summary.py"))
            .args([&recording, &summary])
            .env("PYTHONPATH", format!("{root}/target/python"))
            .output()
            .unwrap();
        assert!(
            oracle.status.success(),
            "{}{}",
            String::from_utf8_lossy(&oracle.stdout),
            String::from_utf8_lossy(&oracle.stderr)
        );
    }

    #[test]
    fn text_is_the_same_from_the_recording() {
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("run.vmn");
        let path = recording.to_str().unwrap();
        let live = run_to_end(&["microvm", "-c", "1", "-d", "1s", "-o", path]).unwrap();
        assert!(
            live.status.success(),
            "{}",
            String::from_utf8_lossy(&live.stderr)
        );
        assert_eq!(
            String::from_utf8(live.stdout).unwrap(),
            explain(&recording, "text")
        );
    }

    #[test]
    fn ctrl_c_once_finishes_and_prints() {
        let run = VmnoiseRun::microvm(CPU, &["--duration", "30s"]).unwrap();
        std::thread::sleep(Duration::from_millis(700));
        run.signal(Signal::INT).unwrap();
        let summary = run.summary().unwrap();
        assert_eq!(summary["complete"], true);
        assert_eq!(summary["finish_reason"], "interrupt");
        assert!(summary["cpus"][0]["runtime_ns"].as_u64().unwrap() < 5_000_000_000);
    }

    #[test]
    fn stop_ends_the_run_with_status_2_and_that_budget_first() {
        let output = run_to_end(&["microvm", "-c", "1", "-d", "30s", "--stop", "2us"]).unwrap();
        assert_eq!(
            output.status.code(),
            Some(2),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with("Stopped by"), "{text}");
    }

    #[test]
    fn own_events_on_the_measured_cpu_stay_few() {
        let summary = VmnoiseRun::microvm(CPU, &["--duration", "3s"])
            .and_then(VmnoiseRun::summary)
            .unwrap();
        let own: u64 = summary["cpus"][0]["sources"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|entry| {
                entry["name"]
                    .as_str()
                    .is_some_and(|name| name.starts_with("vmnoise"))
            })
            .filter_map(|entry| entry["count"].as_u64())
            .sum();
        assert!(
            own <= 3,
            "vmnoise's own threads took the measured CPU {own} times in 3 s"
        );
        // Only switches may be unpaired, because some kernels hide switches of some tasks.
        for kind in ["ring_full", "recursion", "mailbox_full", "undecodable"] {
            assert_eq!(summary["losses"][kind], 0, "{kind}");
        }
    }

    #[test]
    fn without_trace_it_measures_and_blames_nobody() {
        let summary = VmnoiseRun::microvm(CPU, &["--duration", "1s", "--no-trace"])
            .and_then(VmnoiseRun::summary)
            .unwrap();
        assert!(summary["cpus"][0]["gaps"].as_u64().unwrap() > 0);
        assert_eq!(summary["cpus"][0]["sources"].as_array().unwrap().len(), 0);
        assert!(summary["cpus"][0]["shares_ns"]["preempted"].is_null());
    }
}
