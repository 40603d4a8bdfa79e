//! Jobs that ran, beside what `vmnoise schedule` computes from recordings of the same run.
//!
//! Why no job may take longer than its bound, if recording and analysis are right. Look at a job that is done, and back to
//! when the CPU last had none of the set to do. From then on the recorder, which goes behind all of them, does not poll, so
//! all of that time lies in one gap of it (a job that comes while the recorder writes a gap down makes that a gap as well).
//! Each instant of a gap has one owner. What the owners that are no task of the set had is no more than the worst window of
//! that length lost. What the tasks had is no more than so many costs as jobs had come, if the cost of each task is the
//! most that the recording has of its thread from where one job could begin until the next one could, the ways on the CPU and
//! off it included. What is left is that a job comes late. The recorder still polls then, so it shows by how much; by the
//! analysis a set whose jobs come late by no more than its jitter is done that much later at most. Of that jitter
//! `timerlat`, which may run beside, has seen a part; where a job of the tasks was later than all of its wake-ups, the
//! rest is in their description.
//!
//! In a lab other ordinary threads run beside the recorder, and any thread beside tasks of SCHED_DEADLINE. Whatever they are
//! at, a job goes before them as soon as the kernel lets it. So they count as the recorder does: what they took is left to
//! the tasks, and a job came late for as long as one of them still ran. To say that of a wrong thread moves time from the one
//! side to the other, and makes no bound wrong.
//!
//! So what a job was charged by the scheduler is in none of the bounds. It is a witness: the recording must not give
//! the threads of the tasks more than they were charged.

mod books;
mod described;
mod interrupts;

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use vmnoise_labs::binary;
use vmnoise_labs::periodic::Played;

use books::Books;
use described::{Cost, describe};

/// A set that ran, and was recorded meanwhile.
#[derive(Debug, Clone)]
pub struct Recorded {
    pub cpu: u32,
    pub tasks: Vec<Played>,
    /// Of `osnoise`.
    pub gaps: PathBuf,
    /// How the names of those threads begin that go before all others but the tasks. `None`: any thread may.
    pub go_before: Option<&'static [&'static str]>,
    /// Of `timerlat` on the same CPU, if it ran beside.
    pub wakeups: Option<PathBuf>,
}

/// A task beside its bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub name: String,
    pub jobs: usize,
    /// How many of its jobs took longer than its deadline.
    pub missed: usize,
    /// How many were done where nobody looked: what was taken from them is in no gap.
    pub unseen: usize,
    pub cost_ns: u64,
    pub deadline_ns: u64,
    /// By how much a job came late at most.
    pub late_ns: u64,
    /// The longest of the jobs that were seen.
    pub worst_response_ns: u64,
    /// What was computed, from the arrival on; `None` without a bound.
    pub bound_ns: Option<u64>,
    /// `holds`, `may_miss` or `cannot_tell`, of a deadline that counts from when a job came, however late; `None` where
    /// the set was refused.
    pub verdict: Option<String>,
}

/// What `vmnoise schedule` said.
#[derive(Debug)]
pub struct Judgement {
    /// With which status it ended.
    pub status: Option<i32>,
    /// What it said beside its result: why it refused the set.
    pub said: String,
    /// The latest wake-up that `timerlat` saw, nanoseconds; 0 where it was not there.
    pub latency_ns: u64,
    /// The tasks in their order.
    pub tasks: Vec<Held>,
}

/// What one job of a task needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// The most that the recording has of any: no job needed more.
    Recorded,
    /// Its work, where nobody disturbs it, and no job came late: each job needed at least that.
    Work,
}

impl Recorded {
    /// Computes the bounds of the tasks, with what those took who are called so taken out of the gaps besides the tasks.
    /// `deadline`: of each task, as a part of its period.
    pub fn judge(&self, needs: Needs, deadline: f64, without: &[&str]) -> Judgement {
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
        let mut held: Vec<Held> = self
            .tasks
            .iter()
            .map(|task| seen(task, &books, needs, deadline))
            .collect();
        let jitter_ns = |it: &Held| it.late_ns.saturating_sub(latency_ns);
        let costs: Vec<Cost> = held
            .iter()
            .map(|it| Cost {
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
            // A response counts from when a job came, and this one came late.
            let response_ns = judged["response_ns"].as_u64();
            task.bound_ns = response_ns.map(|it| it + jitter_ns(task));
            task.verdict = judged["verdict"].as_str().map(str::to_owned);
        }
        Judgement {
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

    /// Its status, what it printed (null if nothing), and what it said besides.
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

/// What its log and the recording say of a task.
fn seen(task: &Played, books: &Books, needs: Needs, deadline: f64) -> Held {
    // A job begins once it has come and the one before it is done.
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
    Held {
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

/// Both the scheduler's clock and the event are of one `__schedule`, with no more than the choice of the next task between
/// them, and that at both ends of a turn: the two accounts of a turn differ by less than a switch takes.
const SWITCH_NS: u64 = 2_000;

/// A recording that gave tasks what others took would give them costs that are too large, and their bounds would hold.
fn assert_charged(task: &Played, (turns, recorded_ns): (u64, u64)) {
    let most_ns = task.charged_ns + turns * SWITCH_NS;
    assert!(
        recorded_ns <= most_ns,
        "{}: {recorded_ns} > {most_ns}",
        task.name
    );
}

impl Judgement {
    /// No job took longer than its bound, to the nanosecond. How many of those that were seen were held against one:
    /// without a bound nothing is said that could be wrong.
    pub fn assert_held(&self) -> usize {
        let bounded = self.tasks.iter().filter_map(|task| {
            let bound_ns = task.bound_ns?;
            assert!(task.worst_response_ns <= bound_ns, "{self}");
            Some(task.jobs - task.unseen)
        });
        bounded.sum()
    }

    /// How many ran.
    pub fn jobs(&self) -> usize {
        self.tasks.iter().map(|task| task.jobs).sum()
    }
}

impl fmt::Display for Judgement {
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
