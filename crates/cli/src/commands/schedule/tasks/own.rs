//! Parses a set of tasks in TOML.

use std::rc::Rc;

use response_time_analysis::arrival::Sporadic;
use response_time_analysis::time::Duration;
use serde::Deserialize;
use vmnoise_console::units::{Bare, parse_time};
use vmnoise_events::Name;
use vmnoise_predict::schedule::{PeriodicTask, Preemption, ScheduleOrder, TaskSet};

use super::{Described, MOST_PERIODS_LATE};

/// File of tasks.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Set {
    policy: String,
    task: Vec<Entry>,
}

/// Task in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    cost: toml::Value,
    period: toml::Value,
    deadline: Option<toml::Value>,
    jitter: Option<toml::Value>,
    priority: Option<u32>,
    non_preemptive: Option<toml::Value>,
    last_section: Option<toml::Value>,
}

/// Parses a file of tasks.
pub(super) fn parse(text: &str) -> Result<Described, String> {
    let set: Set = toml::from_str(text).map_err(|error| {
        let line = error
            .span()
            .map_or(1, |at| text[..at.start].lines().count().max(1));
        format!(
            "line {line}: {}; docs/schedule.md has a whole file",
            error.message().replace('\n', ", ")
        )
    })?;
    let policy = match set.policy.as_str() {
        "fifo" => ScheduleOrder::Fifo,
        "edf" => ScheduleOrder::Edf,
        "fp" => ScheduleOrder::FixedPriority,
        other => {
            return Err(format!(
                "policy = `{}`: write fp (SCHED_FIFO by priorities), edf (SCHED_DEADLINE) or fifo",
                Name::new(other)
            ));
        }
    };
    if set.task.is_empty() {
        return Err("it has no task: write [[task]] with a name, a cost and a period".into());
    }
    let mut names: Vec<&str> = set.task.iter().map(|it| &*it.name).collect();
    names.sort_unstable();
    if let Some(two) = names.windows(2).find(|two| two[0] == two[1]) {
        return Err(format!(
            "two tasks are called `{}`: give each a name of its own",
            Name::new(two[0])
        ));
    }
    let of_entry = |entry: Entry| {
        let name = Name::new(&entry.name);
        task(policy, entry).map_err(|error| format!("task `{name}`: {error}"))
    };
    let tasks = set
        .task
        .into_iter()
        .map(of_entry)
        .collect::<Result<_, _>>()?;
    Ok(Described {
        set: TaskSet { policy, tasks },
        observed_under: None,
        bound_to: Vec::new(),
        notes: Vec::new(),
    })
}

fn task(policy: ScheduleOrder, entry: Entry) -> Result<PeriodicTask, String> {
    let cost_ns = above_0("cost", &entry.cost)?;
    let period_ns = above_0("period", &entry.period)?;
    let deadline_ns = match &entry.deadline {
        Some(deadline) => above_0("deadline", deadline)?,
        None => period_ns,
    };
    let jitter_ns = entry
        .jitter
        .as_ref()
        .map_or(Ok(0), |it| time("jitter", it))?;
    let preemption = match &entry.non_preemptive {
        None => Preemption::Full,
        Some(toml::Value::String(all)) if all == "all" => Preemption::None,
        Some(section) => {
            let longest_ns = above_0("non_preemptive", section)?;
            match &entry.last_section {
                Some(last) => Preemption::Points {
                    longest_ns,
                    last_ns: above_0("last_section", last)?.min(longest_ns),
                },
                None => Preemption::Sections(longest_ns),
            }
        }
    };
    let priority = match (policy, entry.priority) {
        (ScheduleOrder::FixedPriority, None) => {
            return Err("it has no priority: write one of 1 to 99, as `chrt -f` takes it".into());
        }
        (ScheduleOrder::FixedPriority, Some(priority)) if !(1..=99).contains(&priority) => {
            return Err(format!(
                "priority = {priority}: write one of 1 to 99, as `chrt -f` takes it"
            ));
        }
        (_, priority) => priority.unwrap_or(0),
    };
    if jitter_ns / period_ns > MOST_PERIODS_LATE {
        return Err(format!(
            "its jitter is more than {MOST_PERIODS_LATE} periods: write a shorter jitter"
        ));
    }
    if cost_ns > deadline_ns {
        return Err("its cost is longer than its deadline, so no CPU can meet it".into());
    }
    let (period, jitter) = (Duration::from(period_ns), Duration::from(jitter_ns));
    Ok(PeriodicTask {
        name: Name::new(&entry.name).to_string(),
        cost_ns,
        arrivals: Rc::new(Sporadic::new(period, jitter)),
        period_ns,
        deadline_ns,
        priority,
        preemption,
    })
}

/// Parses a time with its unit, as nanoseconds.
fn time(what: &str, value: &toml::Value) -> Result<u64, String> {
    let text = match value {
        toml::Value::String(text) => Name::new(text).to_string(),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        other => {
            return Err(format!(
                "{what} is a {}: write a time with its unit, such as \"250us\"",
                other.type_str()
            ));
        }
    };
    if text.bytes().all(|it| it.is_ascii_digit() || it == b'.') {
        return Err(format!(
            "{what} = {text} has no unit: add ns, us, ms or s, such as \"{text}us\""
        ));
    }
    parse_time(&text, Bare::Microseconds).map_err(|error| format!("{what}: {error}"))
}

fn above_0(what: &str, value: &toml::Value) -> Result<u64, String> {
    match time(what, value)? {
        0 => Err(format!("{what} is 0: write a longer time")),
        ns => Ok(ns),
    }
}
