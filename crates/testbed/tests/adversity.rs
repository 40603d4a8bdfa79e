//! Checks that a fault during a run is reported, and that the run keeps everything that it measured
//! before.

use std::path::Path;

use serde_json::Value;
use vmnoise_events::{Event, LossKind};
use vmnoise_recording::RecordingReader;
use vmnoise_testbed::judge::assert_budgets_add_up;
use vmnoise_testbed::{Cpuset, VmnoiseRun, run_to_end};

const CPU: u32 = 1;

fn explained(recording: &Path, format: &str) -> String {
    let path = recording.to_str().unwrap();
    let output = run_to_end(&["explain", path, "--format", format]).unwrap();
    assert_eq!(output.status.code(), Some(0));
    String::from_utf8(output.stdout).unwrap()
}

/// Removes the measured CPU from the cpuset of a running `vmnoise`, and checks that `vmnoise`
/// reports this.
fn lose_the_cpu(start: impl FnOnce(&[&str]) -> VmnoiseRun) {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("run.vmn");
    let set = Cpuset::create("0-1").unwrap();
    let run = start(&["-d", "60s", "-o", recording.to_str().unwrap()]);
    set.take_in(run.pid()).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(1));
    set.allow("0").unwrap();
    let (status, stdout, stderr) = run.output().unwrap();
    assert_eq!(status, Some(1), "{stderr}");
    assert_ended_early(&stdout, &stderr);
    assert_eq!(explained(&recording, "json"), stdout);
}

/// Asserts that one line on stderr gives the reason, and that the result covers the time before the
/// fault.
fn assert_ended_early(stdout: &str, stderr: &str) {
    let said = stderr.lines().filter(|line| line.contains("ended early"));
    let said: Vec<_> = said.collect();
    assert_eq!(said.len(), 1, "{stderr}");
    assert!(said[0].contains("CPU 1 went offline or left this process's cpuset"));
    let summary: Value = serde_json::from_str(stdout).unwrap();
    assert_eq!(summary["finish_reason"], "failed");
    assert_budgets_add_up(&summary);
    let cpu = &summary["cpus"][0];
    assert!(cpu["runtime_ns"].as_u64().unwrap() > 50_000_000, "{cpu}");
    assert!(cpu["gaps"].as_u64().unwrap() > 0, "{cpu}");
}

/// Asserts that the recording reports the loss before any watermark passes the loss's begin. Then
/// all gaps that are explained afterwards take the loss into account. Nothing was drained for
/// seconds, so the ring was full from the start of the longest time in which no record ends.
fn assert_losses_come_first(recording: &Path) {
    let (mut ends_ns, mut passed_ns, mut is_reported) = (Vec::new(), 0, false);
    let mut reader = RecordingReader::open(recording).unwrap();
    let read = reader.for_each(&mut |event| match event {
        Event::Activity(activity) => ends_ns.push(activity.end_mono_ns),
        Event::Watermark(mono_ns) if !is_reported => passed_ns = *mono_ns,
        Event::Loss(loss) => is_reported |= loss.kind == LossKind::RingFull && loss.count > 0,
        _ => {}
    });
    read.unwrap();
    assert!(is_reported);
    ends_ns.sort_unstable();
    let holes = ends_ns.windows(2).map(|ends| (ends[1] - ends[0], ends[0]));
    let (_, full_ns) = holes.max().unwrap();
    assert!(
        passed_ns <= full_ns,
        "a watermark is at {passed_ns}, and the ring was full from {full_ns}"
    );
}

mod root {
    use vmnoise_testbed::{Disturber, NOBODY_DRAINS, hold_first_thread};

    use super::*;

    #[test]
    fn osnoise_whose_cpu_leaves_the_cpuset_ends_and_says_so() {
        lose_the_cpu(|arguments| {
            let arguments = [&["-c", "1"], arguments].concat();
            VmnoiseRun::osnoise(CPU, &arguments).unwrap()
        });
    }

    #[test]
    fn activities_beyond_the_ring_are_counted_and_nothing_else_suffers() {
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("run.vmn");
        let path = recording.to_str().unwrap();
        let run = VmnoiseRun::osnoise(CPU, &["-c", "1", "-d", "6s", "-o", path]).unwrap();
        // Only one thread is held. A stopped process would not poll, and the kernel would report no
        // event for its CPU.
        let storm = Disturber::storm(CPU).unwrap();
        hold_first_thread(run.pid(), NOBODY_DRAINS, || false).unwrap();
        drop(storm);
        let summary = run.summary().unwrap();

        assert_losses_come_first(&recording);
        assert_budgets_add_up(&summary);
        let lost = summary["losses"]["ring_full"].as_u64().unwrap();
        assert!(lost > 0, "{}", summary["losses"]);
        assert!(summary["lost_events"].as_u64().unwrap() >= lost);
        let text = explained(&recording, "text");
        assert!(text.contains(&format!("ring_full {lost}")), "{text}");
        assert!(text.contains("maxima are lower bounds"), "{text}");
    }
}

mod kvm {
    use super::*;

    #[test]
    fn a_microvm_whose_cpu_leaves_the_cpuset_ends_and_says_so() {
        lose_the_cpu(|arguments| VmnoiseRun::microvm(CPU, arguments).unwrap());
    }
}

mod lab {
    use vmnoise_testbed::bed::{DebianKernel, Lab};
    use vmnoise_testbed::lab_program;

    use super::*;

    #[test]
    fn a_cpu_that_goes_offline_ends_its_measurement_and_no_other() {
        let runs = [
            "vmnoise osnoise -c 1 -d 60s --format json -o /tmp/osnoise.vmn",
            "vmnoise microvm -c 1 -d 60s --format json -o /tmp/microvm.vmn",
            // This run's own threads use CPU 2, which is not measured.
            "vmnoise osnoise -c 1 -H 2 -d 5s --format json -o /tmp/bystander.vmn",
        ];
        let report = Lab::kernel(DebianKernel::Cloud)
            .cpus(3)
            .program(&lab_program("lab-disturb").unwrap())
            .run(&[
                "& lab-disturb unplug 1 /tmp/osnoise.vmn",
                runs[0],
                "vmnoise explain /tmp/osnoise.vmn --format json",
                "lab-disturb online 1",
                "& lab-disturb unplug 1 /tmp/microvm.vmn",
                runs[1],
                "vmnoise explain /tmp/microvm.vmn --format json",
                "lab-disturb online 1",
                "& lab-disturb unplug 2 /tmp/bystander.vmn",
                runs[2],
            ])
            .unwrap();
        let [osnoise, explained, _, microvm, explained_too, _, bystander] = &report.outputs[..]
        else {
            panic!("{:?}", report.outputs)
        };
        for (lost, explained) in [(osnoise, explained), (microvm, explained_too)] {
            assert_eq!(lost.status, Some(1), "{}", lost.stderr);
            assert_ended_early(&lost.stdout, &lost.stderr);
            assert_eq!(explained.stdout, lost.stdout);
        }
        assert_eq!(bystander.status, Some(0), "{}", bystander.stderr);
        let summary: Value = serde_json::from_str(&bystander.stdout).unwrap();
        assert_budgets_add_up(&summary);
        assert_eq!(summary["finish_reason"], "duration");
        // The console contains the errors of the kernel and of the disturbers.
        assert!(!report.console.contains("Error"), "{}", report.console);
        assert!(!report.console.contains("BUG:"), "{}", report.console);
    }
}
