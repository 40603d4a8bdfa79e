//! Compares jobs that ran with the bounds that `vmnoise schedule` computes from a recording of the
//! same run.
//!
//! If the recording and the analysis are right, no job takes longer than its bound:
//!
//! - Consider the time from when the CPU last had no work of the set until a job is done. The
//!   recorder has a lower rank than all tasks, so it does not poll. So all of this time is in one
//!   gap. (If a job arrives while the recorder writes a gap, this also causes a gap.)
//! - Each instant of a gap belongs to one thread or interrupt. Those outside the set took at most
//!   as much as in the worst window of the same length.
//! - The tasks took at most one cost per job that had arrived. The cost of a task is the largest
//!   CPU time that the recording attributes to its thread between the starts of two jobs. It
//!   includes the switches onto and off the CPU.
//! - A job may start late. The recorder still polls at that time, so the recording shows how late.
//!   The analysis says: if the jobs of a set are late by at most its jitter, the set is done later
//!   by at most this jitter. `timerlat`, which may run at the same time, has measured a part of
//!   this jitter. If a job was later than all wake-ups of `timerlat`, the description of the tasks
//!   contains the rest.
//!
//! In a lab, other ordinary threads run next to the recorder, and any thread may run next to tasks
//! of SCHED_DEADLINE. A job runs before such threads as soon as the kernel allows it. So these
//! threads count like the recorder: their time is left for the tasks, and a job was late for as
//! long as one of them still ran. If a wrong thread is named here, this moves time from one side to
//! the other, but makes no bound wrong.
//!
//! So no bound depends on the CPU time that the scheduler charged to the jobs. This time is checked
//! separately: the recording must not attribute more time to the tasks' threads than the scheduler
//! charged.

mod books;
mod described;
mod interrupts;

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use vmnoise_testbed::binary;
use vmnoise_testbed::periodic::PlayedTask;

use books::Books;
use described::{SetCost, describe};

/// A set of tasks that ran while it was recorded.
#[derive(Debug, Clone)]
pub struct RecordedSet {
    pub cpu: u32,
    pub tasks: Vec<PlayedTask>,
    /// Recording of `vmnoise osnoise`.
    pub gaps: PathBuf,
    /// Beginnings of the names of other threads that run before all threads except the tasks.
    /// `None` if any thread may run before the tasks.
    pub go_before: Option<&'static [&'static str]>,
    /// Recording of `vmnoise timerlat` on the same CPU; `None` if `timerlat` did not run.
    pub wakeups: Option<PathBuf>,
}

/// A task, values of its recorded jobs, and its bound. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskBound {
    pub name: String,
    pub jobs: usize,
    /// Number of the task's jobs that took longer than the task's deadline.
    pub missed: usize,
    /// Number of jobs that ended while nothing was recorded. The time taken from such a job is in
    /// no gap.
    pub unseen: usize,
    pub cost_ns: u64,
    pub deadline_ns: u64,
    /// Largest delay between a job's arrival and its start.
    pub late_ns: u64,
    /// Longest time from a job's arrival to its end, among jobs that were recorded.
    pub worst_response_ns: u64,
    /// Computed bound for the time from a job's arrival to its end; `None` if there is no bound.
    pub bound_ns: Option<u64>,
    /// Verdict for a deadline that begins at a job's arrival, even if the job starts late: `holds`,
    /// `may_miss` or `cannot_tell`. `None` if the set was refused.
    pub verdict: Option<String>,
}

/// Result of `vmnoise schedule`.
#[derive(Debug)]
pub struct ScheduleAnswer {
    /// Exit status.
    pub status: Option<i32>,
    /// Message on stderr. If `vmnoise schedule` refused the set, it says why.
    pub said: String,
    /// Largest latency that `timerlat` recorded, nanoseconds; 0 without `timerlat`.
    pub latency_ns: u64,
    /// Tasks in order.
    pub tasks: Vec<TaskBound>,
}

/// CPU time that a job is assumed to need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// The largest CPU time of any job in the recording. No job needed more.
    Recorded,
    /// The job's work without disturbance. Each job needed at least this time.
    Work,
}

impl RecordedSet {
    /// Computes the bounds of the tasks. The time of threads whose names are in `without` is also
    /// removed from the gaps. `deadline` is the deadline as a part of each task's period.
    pub fn judge(&self, needs: Needs, deadline: f64, without: &[&str]) -> ScheduleAnswer {
        let tids: Vec<u32> = self.tasks.iter().map(|it| it.tid).collect();
        let books = Books::read(&self.gaps, self.cpu, &tids, &|name| self.is_behind(name));
        for task in &self.tasks {
            let past_ns = task.start_ns + task.done_ns.len() as u64 * task.period_ns;
            assert_charged(task, books.between(task.tid, task.start_ns, past_ns));
        }
        let (_, supply, said) = self.schedule(&[]);
        let latency_ns = match self.wakeups {
            Some(_) => supply["cpus"][0]["blocking_ns"].as_u64().expect(&said),
            None => 0,
        };
        let mut held: Vec<TaskBound> = self
            .tasks
            .iter()
            .map(|task| seen(task, &books, needs, deadline))
            .collect();
        let jitter_ns = |it: &TaskBound| it.late_ns.saturating_sub(latency_ns);
        let costs: Vec<SetCost> = held
            .iter()
            .map(|it| SetCost {
                cost_ns: it.cost_ns,
                deadline_ns: it.deadline_ns,
                jitter_ns: jitter_ns(it),
            })
            .collect();
        let file = self.gaps.with_file_name("tasks.toml");
        fs::write(&file, describe(&self.tasks, &costs)).unwrap();
        let names: Vec<String> = self
            .tasks
            .iter()
            .map(|it| format!("{}:{}", it.name, it.tid))
            .collect();
        let mut options = vec!["--tasks", file.to_str().unwrap()];
        let names = names.iter().chain(&books.behind).map(String::as_str);
        let names = names.chain(without.iter().copied());
        options.extend(names.flat_map(|it| ["--without", it]));
        let (status, judged, said) = self.schedule(&options);
        for (nth, task) in held.iter_mut().enumerate() {
            let judged = &judged["cpus"][0]["tasks"][nth];
            // The computed response begins at a job's arrival, and the recorded job started late.
            let response_ns = judged["response_ns"].as_u64();
            task.bound_ns = response_ns.map(|it| it + jitter_ns(task));
            task.verdict = judged["verdict"].as_str().map(str::to_owned);
        }
        ScheduleAnswer {
            status,
            said,
            latency_ns,
            tasks: held,
        }
    }

    fn is_behind(&self, name: &str) -> bool {
        let goes_before = |all: &[&str]| all.iter().any(|it| name.starts_with(it));
        self.go_before.is_some_and(|it| !goes_before(it))
    }

    /// Returns the exit status of `vmnoise schedule`, its JSON (null if stdout is empty), and its
    /// stderr.
    fn schedule(&self, options: &[&str]) -> (Option<i32>, Value, String) {
        let mut command = Command::new(binary());
        command.arg("schedule").arg(&self.gaps).args(&self.wakeups);
        command.args(["-c", &self.cpu.to_string(), "--format", "json"]);
        let output = command.args(options).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let printed = match output.stdout.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(&output.stdout).unwrap(),
        };
        (output.status.code(), printed, said)
    }
}

/// Returns a task's values from the log of its jobs and from the recording.
fn seen(task: &PlayedTask, books: &Books, needs: Needs, deadline: f64) -> TaskBound {
    // A job can begin when it has arrived and the previous job is done.
    let before_ns = std::iter::once(0).chain(task.done_ns.iter().copied());
    let begins_ns = task.jobs().zip(before_ns);
    let begins_ns = begins_ns.map(|((came_ns, _), before_ns)| came_ns.max(before_ns));
    let past_ns = task.start_ns + task.done_ns.len() as u64 * task.period_ns;
    let past_ns = past_ns.max(*task.done_ns.last().unwrap());
    let begins_ns: Vec<u64> = begins_ns.chain([past_ns]).collect();
    let looked = task.jobs().filter_map(|(came_ns, done_ns)| {
        let late_ns = books.late_ns(came_ns, done_ns)?;
        Some((late_ns, done_ns - came_ns))
    });
    let looked: Vec<(u64, u64)> = looked.collect();
    let deadline_ns = (task.period_ns as f64 * deadline) as u64;
    let missed = task
        .jobs()
        .filter(|(came_ns, done_ns)| done_ns - came_ns > deadline_ns);
    let latest_ns = looked.iter().map(|(late_ns, _)| *late_ns).max();
    TaskBound {
        name: task.name.clone(),
        jobs: task.done_ns.len(),
        missed: missed.count(),
        unseen: task.done_ns.len() - looked.len(),
        cost_ns: match needs {
            Needs::Recorded => books.most_between_ns(task.tid, &begins_ns),
            Needs::Work => task.work_ns,
        },
        deadline_ns,
        late_ns: match needs {
            Needs::Recorded => latest_ns.unwrap_or(0) + books.clock_bound_ns,
            Needs::Work => 0,
        },
        worst_response_ns: looked.iter().map(|(_, ns)| *ns).max().unwrap_or(0),
        bound_ns: None,
        verdict: None,
    }
}

/// Limit for the difference between a turn's length by the scheduler's clock and by the recorded
/// events, nanoseconds. At both ends of a turn, the scheduler reads its clock and fires the event
/// within one `__schedule`, with only the choice of the next task in between. So the times differ
/// by less than a switch takes.
const SWITCH_NS: u64 = 2_000;

/// Asserts that the recording attributes to a task at most the time that the scheduler charged the
/// task. If it contained time of other threads, the costs would be too large, and bounds would hold
/// for a wrong reason.
fn assert_charged(task: &PlayedTask, (turns, recorded_ns): (u64, u64)) {
    let most_ns = task.charged_ns + turns * SWITCH_NS;
    assert!(
        recorded_ns <= most_ns,
        "{}: {recorded_ns} > {most_ns}",
        task.name
    );
}

impl ScheduleAnswer {
    /// Asserts that no recorded job took longer than its bound. Returns how many recorded jobs had
    /// a bound.
    pub fn assert_held(&self) -> usize {
        let bounded = self.tasks.iter().filter_map(|task| {
            let bound_ns = task.bound_ns?;
            assert!(task.worst_response_ns <= bound_ns, "{self}");
            Some(task.jobs - task.unseen)
        });
        bounded.sum()
    }

    /// Returns the number of all jobs that ran.
    pub fn jobs(&self) -> usize {
        self.tasks.iter().map(|task| task.jobs).sum()
    }
}

impl fmt::Display for ScheduleAnswer {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |ns: u64| ns as f64 / 1e3;
        write!(to, "timers late by {:.1} us", us(self.latency_ns))?;
        if !self.said.is_empty() {
            write!(to, "; {}", self.said.trim_end())?;
        }
        for it in &self.tasks {
            write!(
                to,
                "\n  {}: {} jobs ({} unseen), cost {:.1}, late {:.1}, longest {:.1} us, bound ",
                it.name,
                it.jobs,
                it.unseen,
                us(it.cost_ns),
                us(it.late_ns),
                us(it.worst_response_ns)
            )?;
            match it.bound_ns {
                Some(ns) => write!(to, "{:.1} us", us(ns))?,
                None => write!(to, "-")?,
            }
            let verdict = it.verdict.as_deref().unwrap_or("refused");
            write!(
                to,
                ", deadline {:.1} us: {verdict}, {} missed",
                us(it.deadline_ns),
                it.missed
            )?;
        }
        Ok(())
    }
}
