//! Tests `vmnoise schedule` with periodic tasks that run together with disturbers. No job may take
//! longer than the bound that is computed from the recording of the same run. A set of tasks that
//! needs more CPU time than was left must miss deadlines. The sets use SCHED_FIFO with different
//! priorities (`fp`), SCHED_FIFO with one priority (`fifo`), or SCHED_DEADLINE (`edf`).

use std::time::Duration;

use vmnoise_testbed::Disturber;
use vmnoise_testbed::periodic::ThrottlingGuard;

use crate::deadlines_judge::{Needs, RecordedSet, ScheduleAnswer, TaskBound};
use crate::deadlines_scenes::{TaskScene, here, in_a_lab};

/// Returns whether the verdict says that a task may miss deadlines, and the task did miss some.
fn misses(task: &TaskBound) -> bool {
    task.verdict.as_deref() == Some("may_miss") && task.missed > 0
}

/// Asserts that a set has no bound and late jobs, because it needs more CPU time than was left.
fn assert_overloaded(recorded: &RecordedSet) {
    let judgement = recorded.judge(Needs::Work, 1.0, &[]);
    println!("{judgement}");
    assert_eq!(judgement.status, Some(2), "{judgement}");
    let last = judgement.tasks.last().unwrap();
    assert!(misses(last) && last.bound_ns.is_none(), "{judgement}");
}

mod root {
    use super::*;

    const CPU: u32 = 1;

    /// Starts a disturber with a higher priority than the tasks of the set.
    fn bursts(us: u64, every_us: u64) -> Disturber {
        let [burst, every] = [us, every_us].map(Duration::from_micros);
        Disturber::irregular(CPU, burst, every).unwrap()
    }

    /// Runs a set of tasks several times, and asserts that no job takes longer than its bound.
    /// `set` contains the name, priority, work per job and period of each task; times are in
    /// microseconds. Interrupts disturb the tasks, and `timers` timers expire in each interrupt.
    /// The periods are long: if the machine's host takes time from a job, and the steal clock does
    /// not show it, this time counts as cost of every job.
    fn assert_no_job_takes_longer(set: &str, timers: u32) {
        const ENOUGH: usize = 1_500;
        const RUNS: usize = 6;
        // This period has no short common multiple with the periods of the tasks.
        let every = Duration::from_micros(7_410);
        let _interrupts = Disturber::expiries(CPU, timers, every).unwrap();
        let (mut held, mut ran) = (0, 0);
        for _ in 0..RUNS {
            let folder = tempfile::tempdir().unwrap();
            let judgement = here(CPU, 5_000, set, folder.path()).judge(Needs::Recorded, 1.0, &[]);
            println!("{judgement}");
            held += judgement.assert_held();
            ran += judgement.jobs();
            println!("{held} of {ran} jobs had a bound");
            if held >= ENOUGH {
                break;
            }
        }
        // A run has no bound if the host took more time from single jobs than their period. If no
        // run has a bound, nothing was tested.
        assert!(held > 0, "none of {ran} jobs had a bound");
    }

    #[test]
    fn no_job_of_a_priority_takes_longer_than_was_computed_from_its_run() {
        let _all = ThrottlingGuard::new().unwrap();
        let _bursts = bursts(400, 4_000);
        let set = "job-fast:40:300:10000 job-mid:30:1000:20000 job-slow:20:2000:50000";
        assert_no_job_takes_longer(set, 20);
    }

    // No task makes bursts in this test. The kernel lets SCHED_DEADLINE tasks stay on one of
    // several CPUs only while it does not check that all deadlines can be met
    // (kernel/sched/syscalls.c, `dl_bandwidth_enabled`). `ThrottlingGuard` turns this check off.
    #[test]
    fn no_job_with_a_deadline_takes_longer_than_was_computed_from_its_run() {
        let _all = ThrottlingGuard::new().unwrap();
        let set =
            "job-fast:deadline:300:10000 job-mid:deadline:1000:20000 job-slow:deadline:2000:50000";
        assert_no_job_takes_longer(set, 100);
    }

    #[test]
    fn a_set_that_needs_more_than_was_left_misses() {
        let _all = ThrottlingGuard::new().unwrap();
        let _bursts = bursts(500, 500);
        let folder = tempfile::tempdir().unwrap();
        let set = "job-fast:40:300:2000 job-mid:30:2000:4000";
        assert_overloaded(&here(CPU, 2_000, set, folder.path()));
    }
}

/// Returns a scene without `timerlat`.
fn scene(tasks: &str, milliseconds: u64, beside: &[&str]) -> TaskScene {
    TaskScene {
        tasks: tasks.to_owned(),
        milliseconds,
        beside: beside.iter().map(|it| (*it).to_owned()).collect(),
        has_timerlat: false,
    }
}

mod virtual_time {
    use super::*;

    /// Asserts that some job took longer than its bound without the recorded noise. So the
    /// recording makes a difference.
    fn assert_needs_the_recording(recorded: &RecordedSet) {
        let nothing = RecordedSet {
            wakeups: None,
            ..recorded.clone()
        };
        let alone = nothing.judge(Needs::Recorded, 1.0, &["*"]);
        let longer = |it: &TaskBound| it.bound_ns.is_some_and(|ns| it.worst_response_ns > ns);
        assert!(alone.tasks.iter().any(longer), "{alone}");
    }

    #[test]
    fn what_a_disturber_breaks_holds_without_it() {
        const SET: &str = "job-fast:40:200:10000 job-mid:30:500:15000 job-slow:20:1000:20000";
        let folder = tempfile::tempdir().unwrap();
        let scenes = [
            scene(SET, 1_100, &[]),
            scene(SET, 1_100, &["lab-disturb irregular 0 6000 30000"]),
        ];
        let [quiet, disturbed] = &in_a_lab(&scenes, folder.path())[..] else {
            panic!("two scenes");
        };
        let judge = |recorded: &RecordedSet, without: &[&str]| {
            let judgement = recorded.judge(Needs::Recorded, 0.5, without);
            println!("without {without:?}: {judgement}");
            judgement
        };
        let all_hold = |it: &ScheduleAnswer| {
            assert_eq!(it.status, Some(0), "{it}");
            let is_in_time =
                |task: &TaskBound| task.bound_ns.is_some_and(|ns| ns <= task.deadline_ns);
            assert!(it.tasks.iter().all(is_in_time), "{it}");
        };
        let alone = judge(quiet, &[]);
        assert!(alone.assert_held() == alone.jobs(), "{alone}");
        all_hold(&alone);
        assert!(alone.tasks.iter().all(|it| it.missed == 0), "{alone}");
        let beside = judge(disturbed, &[]);
        assert!(beside.assert_held() == beside.jobs(), "{beside}");
        assert_eq!(beside.status, Some(2), "{beside}");
        assert!(beside.tasks.iter().any(misses), "{beside}");
        all_hold(&judge(disturbed, &["lab-disturb"]));
        assert_needs_the_recording(disturbed);
    }

    #[test]
    fn no_job_with_a_deadline_takes_longer_and_one_too_many_misses() {
        let folder = tempfile::tempdir().unwrap();
        // On a machine with several CPUs, the kernel does not admit a pinned task of this policy.
        // All other threads have lower scheduling classes.
        let edf = TaskScene {
            has_timerlat: true,
            ..scene(
                "job-fast:deadline:40:2000 job-mid:deadline:100:4000 job-slow:deadline:400:10000",
                1_100,
                &["lab-disturb expiries 0 800 7410 200"],
            )
        };
        let overload = scene(
            "job-fast:40:300:2000 job-mid:30:2000:4000",
            500,
            &["lab-disturb irregular 0 500 500"],
        );
        let [edf, overload] = &in_a_lab(&[edf, overload], folder.path())[..] else {
            panic!("two scenes");
        };
        let judgement = edf.judge(Needs::Recorded, 1.0, &[]);
        println!("{judgement}");
        assert!(judgement.assert_held() == judgement.jobs(), "{judgement}");
        assert!(judgement.latency_ns > 0, "{judgement}");
        assert_needs_the_recording(edf);
        assert_overloaded(overload);
    }
}

mod lab_full {
    mod own_suite {
        use super::super::*;

        const JOBS: usize = 1_000_000;
        const PRIORITIES: &str =
            "job-a:40:10:250 job-b:39:10:250 job-c:38:10:500 job-d:37:20:500 job-e:36:20:1000";
        const ONE_PRIORITY: &str =
            "job-a:40:10:250 job-b:40:10:250 job-c:40:10:500 job-d:40:20:500 job-e:40:20:1000";
        const DEADLINES: &str = "job-a:deadline:10:250 job-b:deadline:10:250 job-c:deadline:20:500";

        /// Each lab has other disturbers. Otherwise all labs would be the same under virtual time.
        #[test]
        fn no_job_of_a_million_takes_longer() {
            let (mut held, mut ran) = (0, 0);
            let mut nth = 0;
            while held < JOBS {
                let folder = tempfile::tempdir().unwrap();
                let interrupts = format!("lab-disturb expiries 0 10 {} 5000", 7_410 + 113 * nth);
                let bursts = format!(
                    "lab-disturb irregular 0 {} {}",
                    100 + 7 * nth,
                    1_500 + 37 * nth
                );
                let scenes = [
                    scene(DEADLINES, 8_000, &[&interrupts]),
                    scene(PRIORITIES, 8_000, &[&interrupts, &bursts]),
                    scene(ONE_PRIORITY, 8_000, &[&interrupts]),
                ];
                for recorded in in_a_lab(&scenes, folder.path()) {
                    let judgement = recorded.judge(Needs::Recorded, 1.0, &[]);
                    println!("{judgement}");
                    held += judgement.assert_held();
                    ran += judgement.jobs();
                }
                println!("{held} of {ran} jobs had a bound, {} labs", nth + 1);
                assert!(2 * held >= ran, "most runs have no bound");
                nth += 1;
            }
        }
    }
}
