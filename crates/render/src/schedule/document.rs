//! JSON document `vmnoise.schedule/1` (docs/json.md).

use anyhow::Result;
use serde::Serialize;
use vmnoise_events::coverage::{BlindSpot, RunEnd};
use vmnoise_predict::schedule::{DeadlineVerdict, PeriodicTask, ScheduleOrder, TaskVerdict};

use super::{CpuSupply, ScheduleResult, words};
use crate::json;

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    tool_version: &'static str,
    without: &'a [String],
    policy: Option<&'static str>,
    cpus: Vec<Cpu<'a>>,
}

#[derive(Serialize)]
struct Cpu<'a> {
    cpu: u32,
    files: &'a [&'a str],
    span_ns: u64,
    gaps: usize,
    threshold_ns: u64,
    blind_spots: Vec<BlindSpot>,
    lost_gaps: u64,
    complete: bool,
    unseen_ns: u64,
    left_percent: f64,
    bounded_delay: BoundedDelay,
    blocking_ns: Option<u64>,
    windows: Vec<Window>,
    tasks: Vec<OfTask<'a>>,
}

#[derive(Serialize)]
struct BoundedDelay {
    rate: f64,
    delay_ns: u64,
}

#[derive(Serialize)]
struct Window {
    window_ns: u64,
    left_at_least_ns: u64,
    unseen_at_most_ns: u64,
    shares_at_most_ns: serde_json::Map<String, serde_json::Value>,
}

#[derive(Serialize)]
struct OfTask<'a> {
    name: &'a str,
    cost_ns: u64,
    deadline_ns: u64,
    priority: Option<u32>,
    response_ns: Option<u64>,
    slack_ns: Option<u64>,
    busy_window_ns: Option<u64>,
    windows: Option<u64>,
    breakdown_gap_ns: Option<u64>,
    breakdown_gap_is_at_least: bool,
    verdict: &'static str,
    reason: Option<String>,
    excluded_every_ns: Option<u64>,
    blind_spots: Vec<BlindSpot>,
    most_taken_ns: Option<[Option<u64>; 4]>,
}

/// Renders the document; the output ends with a newline.
///
/// # Errors
/// If the document cannot be written.
pub fn render(scheduled: &ScheduleResult<'_>) -> Result<Vec<u8>> {
    let document = Document {
        schema: "vmnoise.schedule/1",
        tool_version: env!("CARGO_PKG_VERSION"),
        without: scheduled.without,
        policy: scheduled.set.map(|it| policy(it.policy)),
        cpus: scheduled.cpus.iter().map(|it| cpu(it, scheduled)).collect(),
    };
    let mut out = Vec::new();
    json::write(&mut out, &document)?;
    Ok(out)
}

fn policy(policy: ScheduleOrder) -> &'static str {
    match policy {
        ScheduleOrder::FixedPriority => "fp",
        ScheduleOrder::Edf => "edf",
        ScheduleOrder::Fifo => "fifo",
    }
}

fn cpu<'a>(cpu: &'a CpuSupply<'_>, scheduled: &ScheduleResult<'a>) -> Cpu<'a> {
    let supply = &cpu.supply;
    let coverages = || cpu.of_gaps.iter().chain(&cpu.of_latencies);
    let line = supply.bounded_delay(supply.rate());
    let tasks = scheduled.set.iter().flat_map(|set| set.tasks.iter());
    let tasks = tasks.zip(&cpu.judged);
    let is_fp = scheduled
        .set
        .is_some_and(|it| it.policy == ScheduleOrder::FixedPriority);
    Cpu {
        cpu: cpu.cpu,
        files: &cpu.files,
        span_ns: supply.span_ns(),
        gaps: supply.gaps(),
        threshold_ns: cpu.thresholds_ns.1,
        blind_spots: cpu.uncounted(),
        lost_gaps: cpu.of_gaps.iter().map(|it| it.lost.gaps).sum(),
        complete: coverages().all(|it| it.end == RunEnd::InOrder),
        unseen_ns: cpu.unseen_ns,
        left_percent: 100.0 * supply.rate(),
        bounded_delay: BoundedDelay {
            rate: line.rate,
            delay_ns: line.delay_ns.ceil() as u64,
        },
        blocking_ns: cpu.blocking_ns,
        windows: windows(cpu),
        tasks: tasks
            .map(|(task, judged)| of_task(cpu, task, judged, is_fp))
            .collect(),
    }
}

fn windows(cpu: &CpuSupply<'_>) -> Vec<Window> {
    let shares = |shares_ns: &[u64]| {
        let shares = cpu.shares.iter().zip(shares_ns);
        let shares = shares.map(|(share, ns)| (share.name().to_owned(), (*ns).into()));
        shares.collect()
    };
    let rows = cpu.rows.iter().map(|row| Window {
        window_ns: row.length_ns,
        left_at_least_ns: row.left_ns,
        unseen_at_most_ns: row.unseen_ns,
        shares_at_most_ns: shares(&row.shares_ns),
    });
    rows.collect()
}

fn of_task<'a>(
    cpu: &CpuSupply<'_>,
    task: &'a PeriodicTask,
    judged: &TaskVerdict,
    is_fp: bool,
) -> OfTask<'a> {
    let response = judged.response;
    OfTask {
        name: &task.name,
        cost_ns: task.cost_ns,
        deadline_ns: task.deadline_ns,
        priority: is_fp.then_some(task.priority),
        response_ns: response.map(|it| it.bound_ns),
        slack_ns: response.and_then(|it| task.deadline_ns.checked_sub(it.bound_ns)),
        busy_window_ns: response.map(|it| it.busy_window_ns),
        windows: judged.windows,
        breakdown_gap_ns: judged.breakdown_gap.map(|it| it.ns),
        breakdown_gap_is_at_least: judged.breakdown_gap.is_some_and(|it| it.is_at_least),
        verdict: match judged.verdict {
            DeadlineVerdict::Holds => "holds",
            DeadlineVerdict::MayMiss | DeadlineVerdict::Overloads { .. } => "may_miss",
            DeadlineVerdict::Blind
            | DeadlineVerdict::TooShort { .. }
            | DeadlineVerdict::TooMany(_) => "cannot_tell",
        },
        reason: Some(words::why(cpu, judged).join("; ")).filter(|why| !why.is_empty()),
        excluded_every_ns: judged.excluded_every_ns,
        blind_spots: judged.blind_spots.clone(),
        most_taken_ns: response.map(|it| cpu.supply.growth_ns(it.bound_ns)),
    }
}
