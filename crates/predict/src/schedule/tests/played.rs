//! Simulates jobs nanosecond by nanosecond on a CPU with gaps. No job takes longer than its
//! computed bound.

use std::rc::Rc;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use response_time_analysis::arrival::Sporadic;
use response_time_analysis::time::Duration;
use vmnoise_events::Share;

use super::super::{PeriodicTask, Preemption, ScheduleOrder, breakdown_gap, response};
use crate::record::{CpuRecord, RecordCulprit};
use crate::supply::MeasuredSupply;

/// One job of a task.
#[derive(Debug, Clone)]
struct Job {
    task: usize,
    came: u64,
    left: u64,
    done: u64,
}

/// Parameters of a task, in nanoseconds.
#[derive(Debug, Clone)]
struct Set {
    cost: u64,
    period: u64,
    deadline: u64,
    /// Longest delay of a job's arrival, in nanoseconds.
    jitter: u64,
    preemption: Preemption,
    /// Begin of the section whose position is unknown, as a fraction of the cost.
    section_from: u64,
}

impl Set {
    /// Returns whether a job that has had this much CPU time cannot be preempted now.
    fn is_in_section(&self, had: u64) -> bool {
        let is_inside = |from: u64, to: u64| from < had && had < to.min(self.cost);
        match self.preemption {
            Preemption::Full => false,
            Preemption::None => is_inside(0, self.cost),
            Preemption::Sections(ns) => is_inside(self.section_from, self.section_from + ns),
            Preemption::Points {
                longest_ns,
                last_ns,
            } => {
                let last_from = self.cost - last_ns;
                let is_point =
                    had == last_from || had < last_from && had.is_multiple_of(longest_ns);
                !is_point && is_inside(0, self.cost)
            }
        }
    }
}

/// Returns for each nanosecond whether a gap contains it.
fn taken(gaps: &[(u64, u64)]) -> Vec<bool> {
    let stretches = gaps
        .iter()
        .flat_map(|(pause, length)| [(false, *pause), (true, *length)]);
    stretches
        .flat_map(|(is_taken, ns)| vec![is_taken; ns as usize])
        .collect()
}

fn record(gaps: &[(u64, u64)]) -> CpuRecord {
    let mut record = CpuRecord::new(0);
    let who = record.culprit(RecordCulprit {
        share: Share::Irq,
        name: None,
    });
    let mut now = 0;
    for (pause, length) in gaps {
        record.push(now + pause, *length, [(who, *length)].into_iter());
        now += pause + length;
    }
    record.measured(0, now);
    record
}

/// Returns whether job `a` runs before job `b`. Among jobs of one task, the earlier job runs first.
fn goes_before(policy: ScheduleOrder, tasks: &[PeriodicTask], a: &Job, b: &Job) -> bool {
    let key = |job: &Job| {
        let task = &tasks[job.task];
        match policy {
            ScheduleOrder::FixedPriority => u64::from(u32::MAX - task.priority),
            ScheduleOrder::Edf => job.came + task.deadline_ns,
            ScheduleOrder::Fifo => job.came,
        }
    };
    (key(a), a.came, a.task) < (key(b), b.came, b.task)
}

/// Simulates the jobs until the end of the run.
fn play(
    policy: ScheduleOrder,
    sets: &[Set],
    tasks: &[PeriodicTask],
    jobs: &mut [Job],
    taken: &[bool],
) {
    let mut running: Option<usize> = None;
    for now in 0..taken.len() as u64 {
        if taken[now as usize] {
            continue;
        }
        let ready = |job: &Job| job.came <= now && job.left > 0;
        let keeps = running.filter(|it| {
            let job = &jobs[*it];
            let set = &sets[job.task];
            policy != ScheduleOrder::Fifo && set.is_in_section(set.cost - job.left)
        });
        let first = keeps.or_else(|| {
            let ready = (0..jobs.len()).filter(|it| ready(&jobs[*it]));
            ready.reduce(
                |a, b| match goes_before(policy, tasks, &jobs[b], &jobs[a]) {
                    true => b,
                    false => a,
                },
            )
        });
        running = first;
        if let Some(nth) = first {
            jobs[nth].left -= 1;
            jobs[nth].done = now + 1;
        }
    }
}

/// Gaps, tasks, and the delays of the jobs.
type Case = (Vec<(u64, u64)>, Vec<Set>, Vec<u64>);

fn sets() -> impl Strategy<Value = Set> {
    let times = (1_u64..8, 20_u64..80, 20_u64..100, 0_u64..80);
    let sections = (0_usize..4, any::<(u64, u64)>());
    (times, sections).prop_map(|(times, (kind, (some, other)))| {
        let (cost, period, deadline, jitter) = times;
        let longest_ns = 1 + some % cost;
        let preemption = [
            Preemption::Full,
            Preemption::None,
            Preemption::Sections(longest_ns),
            Preemption::Points {
                longest_ns,
                last_ns: 1 + other % longest_ns,
            },
        ];
        Set {
            cost,
            period,
            deadline,
            jitter: jitter % period,
            preemption: preemption[kind],
            section_from: other % cost,
        }
    })
}

fn cases() -> impl Strategy<Value = Case> {
    let gap = (1_u64..60, 0_u64..12);
    (
        proptest::collection::vec(gap, 20..40),
        proptest::collection::vec(sets(), 1..4),
        proptest::collection::vec(0_u64..30, 40),
    )
}

/// Returns the jobs of all tasks. Without jitter, two jobs of a task are at least one period apart.
fn jobs(sets: &[Set], late: &[u64], end: u64) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (nth, set) in sets.iter().enumerate() {
        let mut late = late.iter().copied().cycle().skip(nth * 7);
        let mut due = late.next().unwrap();
        while due < end {
            // The first job is as late as possible, and the second job is not late, so these two
            // arrive close together.
            let jitter = match due / set.period {
                0 => set.jitter,
                1 => 0,
                _ => late.next().unwrap() % (set.jitter + 1),
            };
            jobs.push(Job {
                task: nth,
                came: due + jitter,
                left: set.cost,
                done: u64::MAX,
            });
            // Two of three jobs are due as early as possible.
            let late = late.next().unwrap();
            due += set.period + if late.is_multiple_of(3) { late } else { 0 };
        }
    }
    jobs
}

fn tasks(sets: &[Set], policy: ScheduleOrder) -> Vec<PeriodicTask> {
    let task = |(nth, set): (usize, &Set)| {
        let task = PeriodicTask {
            name: nth.to_string(),
            cost_ns: set.cost,
            arrivals: Rc::new(Sporadic::new_zero_jitter(Duration::from(set.period))),
            period_ns: set.period,
            deadline_ns: set.deadline,
            priority: 9 - nth as u32,
            preemption: match policy {
                ScheduleOrder::Fifo => Preemption::Full,
                _ => set.preemption,
            },
        };
        task.late_by(set.jitter)
    };
    sets.iter().enumerate().map(task).collect()
}

/// Returns whether the job is done by this time. Returns `true` if the time is after the end of the
/// simulation.
fn is_done_by(job: &Job, by: u64, taken: &[bool]) -> bool {
    by > taken.len() as u64 || (job.left == 0 && job.done <= by)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_job_takes_longer_than_its_bound((gaps, sets, late) in cases(), policy in 0_usize..3) {
        let policy = [ScheduleOrder::FixedPriority, ScheduleOrder::Edf, ScheduleOrder::Fifo][policy];
        let tasks = tasks(&sets, policy);
        let record = record(&gaps);
        let supply = MeasuredSupply::new(vec![record.taken()]);
        let taken = taken(&gaps);
        let mut jobs = jobs(&sets, &late, taken.len() as u64);
        play(policy, &sets, &tasks, &mut jobs, &taken);
        for of in 0..tasks.len() {
            let limit_ns = supply.longest_run_ns();
            let Ok(found) = response(policy, &tasks, of, &supply, 0, limit_ns) else { continue };
            for job in jobs.iter().filter(|it| it.task == of) {
                let is_kept = is_done_by(job, job.came + found.bound_ns, &taken);
                prop_assert!(is_kept, "{policy:?} {found:?} {job:?}");
            }
        }
    }

    #[test]
    fn a_gap_shorter_than_the_breakdown_gap_breaks_nothing((gaps, sets, late) in cases(), policy in 0_usize..3, at in any::<u64>()) {
        let policy = [ScheduleOrder::FixedPriority, ScheduleOrder::Edf, ScheduleOrder::Fifo][policy];
        let tasks = tasks(&sets, policy);
        let record = record(&gaps);
        let supply = MeasuredSupply::new(vec![record.taken()]);
        let seen = taken(&gaps);
        for of in 0..tasks.len() {
            let limit_ns = supply.longest_run_ns();
            let gap = breakdown_gap(policy, &tasks, of, &supply, 0, limit_ns);
            let Some(gap) = gap else { continue };
            let mut taken = seen.clone();
            let at = (at % seen.len() as u64) as usize;
            let unseen = taken[at..].iter_mut().take(gap.ns as usize - 1);
            unseen.for_each(|it| *it = true);
            let mut jobs = jobs(&sets, &late, taken.len() as u64);
            play(policy, &sets, &tasks, &mut jobs, &taken);
            for job in jobs.iter().filter(|it| it.task == of) {
                let is_kept = is_done_by(job, job.came + tasks[of].deadline_ns, &taken);
                prop_assert!(is_kept, "{policy:?} {gap:?} at {at} {job:?}");
            }
        }
    }
}

/// If hardly any task had a bound or a breakdown gap, the two tests above would prove nothing.
#[test]
fn most_tasks_that_are_played_have_a_bound_and_a_gap_that_breaks_them() {
    let mut runner = TestRunner::deterministic();
    let (mut all, mut bounded, mut broken) = (0, 0, 0);
    for _ in 0..50 {
        let (gaps, sets, _) = cases().new_tree(&mut runner).unwrap().current();
        let tasks = tasks(&sets, ScheduleOrder::FixedPriority);
        let record = record(&gaps);
        let supply = MeasuredSupply::new(vec![record.taken()]);
        let limit_ns = supply.longest_run_ns();
        for of in 0..tasks.len() {
            all += 1;
            let found = response(
                ScheduleOrder::FixedPriority,
                &tasks,
                of,
                &supply,
                0,
                limit_ns,
            );
            bounded += u32::from(found.is_ok());
            let gap = breakdown_gap(
                ScheduleOrder::FixedPriority,
                &tasks,
                of,
                &supply,
                0,
                limit_ns,
            );
            broken += u32::from(gap.is_some());
        }
    }
    assert!(
        2 * bounded > all && 2 * broken > all,
        "{bounded}, {broken} of {all}"
    );
}
