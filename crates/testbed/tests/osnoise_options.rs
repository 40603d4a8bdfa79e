//! Tests that options of rtla have the same effect here: the CPUs and groups of polling threads,
//! the warm-up, actions at a limit, and the culprit of throttling.

mod root {
    use std::path::Path;
    use std::time::{Duration, Instant};

    use serde_json::Value;
    use vmnoise_testbed::judge::assert_budgets_add_up;
    use vmnoise_testbed::{Group, VmnoiseRun, run_to_end, schedstat, skipped};

    /// Returns how many polling threads and how many other threads of a run are in the group while
    /// the run polls.
    fn in_group(name: &str, group: &Group) -> (usize, usize) {
        let option = format!("-C={name}");
        let run = VmnoiseRun::start(&["osnoise", "-c", "1", "-d", "2", &option]).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        let members = loop {
            let members: Vec<u32> = group
                .members()
                .unwrap()
                .lines()
                .map(|tid| tid.parse().unwrap())
                .collect();
            let threads = schedstat::threads(run.pid()).unwrap();
            let named = |(tid, comm): &(u32, String)| {
                members
                    .contains(tid)
                    .then(|| comm.starts_with("vmnoise-spin"))
            };
            let members: Vec<bool> = threads.iter().filter_map(named).collect();
            if members.contains(&true) {
                break members;
            }
            assert!(Instant::now() < deadline, "no polling thread in {name}");
            std::thread::sleep(Duration::from_millis(20));
        };
        let (status, _, stderr) = run.output().unwrap();
        assert_eq!(status, Some(0), "{stderr}");
        let polling = members.iter().filter(|is_polling| **is_polling).count();
        (polling, members.len() - polling)
    }

    #[test]
    fn a_threaded_group_takes_the_polling_threads_and_any_other_the_process() {
        let Some(group) = Group::new("lab-threaded").unwrap() else {
            return skipped("cgroup2 is not mounted: no group can be created");
        };
        group.thread().unwrap();
        assert_eq!(in_group("lab-threaded", &group), (1, 0));
        assert_eq!(group.members().unwrap(), "");

        let group = Group::new("lab-domain").unwrap().unwrap();
        let (polling, others) = in_group("lab-domain", &group);
        assert!(polling == 1 && others > 0, "{polling} {others}");
        assert_eq!(group.members().unwrap(), "");

        let missing = run_to_end(&["osnoise", "-d", "1", "-C=lab-no-such-group"]).unwrap();
        assert_eq!(missing.status.code(), Some(129));
        let words = String::from_utf8(missing.stderr).unwrap();
        assert!(words.contains("lab-no-such-group; make it"), "{words}");
    }

    #[test]
    fn a_warm_up_is_no_part_of_the_result() {
        let begin = Instant::now();
        let options = ["osnoise", "-c", "1", "-d", "1", "--warm-up", "2"];
        let run = VmnoiseRun::start(&[&options[..], &["--format", "json"]].concat()).unwrap();
        let summary = run.summary().unwrap();
        assert!(begin.elapsed() >= Duration::from_secs(3));
        assert_budgets_add_up(&summary);
        let runtime_ns = summary["cpus"][0]["runtime_ns"].as_u64().unwrap();
        // The last drain ends the run, and a busy machine may delay this drain.
        assert!(
            (800_000_000..2_000_000_000).contains(&runtime_ns),
            "{runtime_ns}"
        );
        for gap in summary["worst"].as_array().unwrap() {
            let at_ns = gap["at_ns"].as_u64().unwrap();
            assert!(at_ns < 2_000_000_000, "{gap}");
        }
    }

    /// The tool's own threads wait for the poller to leave the CPU here, so they cannot end it in
    /// time.
    #[test]
    fn a_real_time_poller_on_the_only_cpu_ends_by_itself() {
        let base = ["osnoise", "-c", "1", "-H", "1", "-P", "f:10", "-d", "200ms"];
        let run = VmnoiseRun::start(&[&base[..], &["--format", "json"]].concat()).unwrap();
        let summary = run.summary().unwrap();
        assert_eq!(summary["finish_reason"], "duration");
        let of = |key: &str| summary["cpus"][0][key].as_u64().unwrap();
        // If the poller did not run at its end time, it ends with the gap at that time.
        let polled_ns = of("runtime_ns").saturating_sub(of("max_gap_ns"));
        assert!(polled_ns <= 201_000_000, "{polled_ns}");
    }

    #[test]
    fn actions_run_in_their_order_at_a_limit_and_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("said");
        let trace = folder.path().join("trace.txt");
        let say = |word| format!("shell,command=echo {word} >> {}", file.display());
        let save = format!("trace,file={}", trace.display());
        let (one, two, three) = (say("one"), say("two"), say("three"));
        let at_limit = ["--on-threshold", &one, "--on-threshold", &save];
        let rest = ["--on-threshold", &two, "--on-end", &three];
        let stop = ["osnoise", "-c", "1", "-d", "30", "-s", "2"];
        let output = run_to_end(&[&stop[..], &at_limit, &rest].concat()).unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\ntwo\nthree\n");
        let lines = std::fs::read_to_string(&trace).unwrap();
        assert!(lines.contains("sample_threshold: start "), "{lines}");
    }

    /// A saved trace must end with the gap that stopped the run, in every format and for both
    /// options.
    #[test]
    fn a_saved_trace_ends_with_the_gap_that_stopped_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let actions = [path("at-limit"), path("at-end")].map(|path| format!("trace,file={path}"));
        let by_stop = format!("-t={}", path("stop"));
        for format in [&["--json-lines"][..], &["--format", "json"]] {
            let stop = ["osnoise", "-c", "1", "-d", "30", "-s", "2", &by_stop];
            let save = ["--on-threshold", &actions[0], "--on-end", &actions[1]];
            let output = run_to_end(&[&stop[..], &save, format].concat()).unwrap();
            assert_eq!(output.status.code(), Some(2));
            let text = String::from_utf8(output.stdout).unwrap();
            let documents = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
            let summary = documents.last().unwrap().unwrap();
            let gap_ns = summary["stopped_by"]["dur_ns"].as_u64().unwrap();
            let saved = ["stop", "at-limit", "at-end"]
                .map(|name| std::fs::read_to_string(path(name)).unwrap());
            let last = saved[0].lines().last().unwrap();
            assert!(
                last.contains(&format!("sample_budget: {gap_ns} ns")),
                "{format:?}: {last}"
            );
            assert_eq!(saved[0], saved[1], "{format:?}");
            assert_eq!(saved[0], saved[2], "{format:?}");
        }
    }

    #[test]
    fn a_run_that_is_to_go_on_does_and_stdout_is_the_result_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("said");
        let say = format!("shell,command=echo hit | tee -a {}", file.display());
        let base = [
            "osnoise", "-c", "1", "-d", "1", "-s", "2", "--format", "json",
        ];
        let go_on = ["--on-threshold", &say, "--on-threshold", "continue"];
        let run = VmnoiseRun::start(&[&base[..], &go_on].concat()).unwrap();
        let summary: Value = run.summary().unwrap();
        assert!(summary["stopped_by"].is_null(), "{summary}");
        let said = std::fs::read_to_string(&file).unwrap();
        assert!(said.lines().count() > 1, "{said}");
    }

    #[test]
    fn a_failed_action_is_an_error() {
        let base = ["osnoise", "-c", "1", "-d", "30", "-s", "2"];
        let fails = ["--on-threshold", "shell,command=exit 7"];
        let output = run_to_end(&[&base[..], &fails].concat()).unwrap();
        assert_eq!(output.status.code(), Some(1));
        let words = String::from_utf8(output.stderr).unwrap();
        assert!(words.contains("`exit 7` ended with"), "{words}");
    }

    /// Longest time between two activities for which there is no event, nanoseconds
    /// (docs/design.md, "Observed threads").
    const WAY_NS: u64 = 20_000;
    /// Number of runs. Most runs lose no record. On a busy machine, where some switches are hidden,
    /// any run may lose one.
    const RUNS: usize = 5;

    /// Runs a poller at a real-time priority several times. Returns the longest gap of each run
    /// that lost no record of this gap.
    fn longest_whole_gaps() -> impl Iterator<Item = Value> {
        let options = ["osnoise", "-c", "1", "-d", "3", "-P", "f:10"];
        (0..RUNS).filter_map(move |_| {
            let run = VmnoiseRun::start(&[&options[..], &["--format", "json"]].concat()).unwrap();
            let summary = run.summary().unwrap();
            assert_budgets_add_up(&summary);
            let gap = summary["worst"][0].clone();
            (summary["losses"]["unpaired"] == 0 && gap["lost_activities"] == 0).then_some(gap)
        })
    }

    /// Returns whether a gap consists of tasks and throttled time. Interrupts and the time between
    /// activities are allowed too.
    fn is_tasks_but_for_ways(gap: &Value) -> bool {
        let parts = gap["parts"].as_array().unwrap();
        let of = |shares: &[&str], key: &str| -> u64 {
            let those = parts
                .iter()
                .filter(|part| shares.iter().any(|it| part["share"] == *it));
            those.map(|part| part[key].as_u64().unwrap_or(0)).sum()
        };
        let tasks_ns = of(&["throttled", "thread"], "ns");
        let interrupts_ns = of(&["irq", "softirq", "nmi", "steal"], "ns");
        let activities = of(&["throttled", "thread", "irq", "softirq", "nmi"], "count");
        let ways_ns = (activities + 1) * WAY_NS;
        tasks_ns > interrupts_ns
            && tasks_ns + interrupts_ns + ways_ns >= gap["dur_ns"].as_u64().unwrap()
    }

    /// Real-time groups lose 50 ms of each second. This time is attributed to the tasks that ran in
    /// it, and to `throttled` while no task ran.
    #[test]
    fn the_hole_of_a_real_time_group_is_throttled_or_whoever_ran_in_it() {
        if !Path::new("/sys/fs/cgroup/cpu/cpu.rt_runtime_us").exists() {
            return skipped("this kernel does not limit real-time groups");
        }
        let mut seen = Vec::new();
        let is_told = longest_whole_gaps().any(|gap| {
            // The poller continues at a tick, and may have used up its time before that.
            assert!(gap["dur_ns"].as_u64().unwrap() > 30_000_000, "{gap}");
            // No event reports the time that the machine below takes between two activities. So not
            // every run has a suitable gap.
            let is_told = is_tasks_but_for_ways(&gap);
            seen.push(gap);
            is_told
        });
        assert!(is_told, "{seen:?}");
    }

    #[test]
    fn a_deadline_without_its_partition_gets_the_remedy() {
        let output = run_to_end(&["osnoise", "-c", "1", "-P", "d:10ms:100ms"]).unwrap();
        assert_eq!(output.status.code(), Some(3));
        let words = String::from_utf8(output.stderr).unwrap();
        assert!(
            words.contains("echo root > cpu1/cpuset.cpus.partition"),
            "{words}"
        );
    }
}

mod lab {
    use serde_json::Value;
    use vmnoise_testbed::bed::{DebianKernel, Lab};
    use vmnoise_testbed::judge::assert_budgets_add_up;
    use vmnoise_testbed::lab_program;

    /// With a budget of a fifth of the period, the idle task has four fifths of each period.
    #[test]
    fn a_deadline_runs_in_its_partition_and_its_budget_is_witnessed() {
        let osnoise = "lab-partition 1 alone vmnoise osnoise -c 1 -C=cpu1 -P d:20ms:100ms -d 2s --format json";
        let report = Lab::kernel(DebianKernel::Cloud)
            .cpus(2)
            .program(&lab_program("lab-partition").unwrap())
            .run(&[osnoise])
            .unwrap();
        let output = &report.outputs[0];
        assert_eq!(output.status, Some(0), "{}", output.stderr);
        let summary: Value = serde_json::from_str(&output.stdout).unwrap();
        assert_budgets_add_up(&summary);
        let cpu = &summary["cpus"][0];
        let runtime_ns = cpu["runtime_ns"].as_u64().unwrap();
        let throttled_ns = cpu["shares_ns"]["throttled"].as_u64().unwrap();
        assert!(
            throttled_ns * 10 > runtime_ns * 7 && throttled_ns * 10 < runtime_ns * 9,
            "throttled for {throttled_ns} ns of {runtime_ns} ns"
        );
    }

    #[test]
    fn a_guest_under_a_deadline_is_throttled_too() {
        let microvm =
            "lab-partition 1 together vmnoise microvm -c 1 -P d:20ms:100ms -d 2s --format json";
        let report = Lab::kernel(DebianKernel::Cloud)
            .cpus(2)
            .program(&lab_program("lab-partition").unwrap())
            .run(&[microvm])
            .unwrap();
        let output = &report.outputs[0];
        assert_eq!(output.status, Some(0), "{}", output.stderr);
        let summary: Value = serde_json::from_str(&output.stdout).unwrap();
        assert_budgets_add_up(&summary);
        let throttled_ns = summary["cpus"][0]["shares_ns"]["throttled"].as_u64();
        assert!(throttled_ns.unwrap() > 0, "{summary}");
    }
}
