//! Result of `schedule` as text for people.

use vmnoise_console::units::seconds;
use vmnoise_events::human;
use vmnoise_predict::schedule::{PeriodicTask, TaskSet, TaskVerdict};

use super::{CpuSupply, ScheduleResult, WorstWindow, words};
use crate::table;

/// Shortest window that is printed, in nanoseconds. Each further window is ten times as long.
const FIRST_NS: u64 = 10_000;

/// Renders the result; the text ends with a newline.
pub fn render(scheduled: &ScheduleResult<'_>) -> String {
    let mut text = String::new();
    for cpu in &scheduled.cpus {
        text += &supply(cpu, scheduled.without);
        if let Some(set) = scheduled.set {
            text += &tasks(cpu, set, scheduled.notes);
        }
    }
    text
}

fn supply(cpu: &CpuSupply<'_>, without: &[String]) -> String {
    let supply = &cpu.supply;
    let runs = match cpu.files.len() {
        1 => String::new(),
        several => format!(" in {several} runs"),
    };
    let mut text = format!(
        "CPU {} of {}: {}{runs}, {} gaps of {}, {:.4} % left\n",
        cpu.cpu,
        cpu.files.join(", "),
        human(supply.span_ns()),
        supply.gaps(),
        lengths(cpu.thresholds_ns),
        100.0 * supply.rate()
    );
    if !without.is_empty() {
        text += &format!(" without the time that {} took\n", without.join(" or "));
    }
    text += &windows(cpu);
    let line = supply.bounded_delay(supply.rate());
    text += &format!(
        " a window of length t left at least {:.4} % of (t - {})\n",
        100.0 * line.rate,
        human(line.delay_ns.ceil() as u64)
    );
    text += &caveats(cpu);
    text
}

/// Formats the thresholds: the minimum length of the gaps that the runs contain.
fn lengths((least_ns, most_ns): (u64, u64)) -> String {
    match least_ns == most_ns {
        true => format!("{} and more", human(least_ns)),
        false => format!(
            "{} to {}, by run, and more",
            human(least_ns),
            human(most_ns)
        ),
    }
}

fn windows(cpu: &CpuSupply<'_>) -> String {
    let longest_ns = cpu.supply.longest_run_ns();
    let lengths = std::iter::successors(Some(FIRST_NS), |it| it.checked_mul(10));
    let rows: Vec<(u64, WorstWindow)> = lengths
        .take_while(|it| *it <= longest_ns)
        .filter_map(|it| Some((it, cpu.worst(it)?)))
        .collect();
    table::of(&rows, |it| {
        it.time("window", |(length_ns, _)| Some(*length_ns))
            .time("left at least", |(length_ns, it)| {
                Some(length_ns - it.taken_ns - it.unseen_ns)
            })
            .time("taken", |(_, it)| Some(it.taken_ns))
            .time("unseen", |(_, it)| Some(it.unseen_ns))
            .figure("at", |(_, it)| match &it.file {
                Some(file) => format!("{} of {file}", seconds(it.at_ns)),
                None => seconds(it.at_ns),
            })
            .words("by", |(_, it)| it.by.join(", ").into())
    })
}

/// Renders the limitations of the figures.
fn caveats(cpu: &CpuSupply<'_>) -> String {
    let mut text = String::new();
    for spot in cpu.uncounted() {
        text += &format!(" less may have been left: {spot}\n");
    }
    if cpu.unseen_ns > 0 {
        text += &format!(
            " unobserved time, {} in all, counts as taken wherever it may have been\n",
            human(cpu.unseen_ns)
        );
    }
    text
}

fn tasks(cpu: &CpuSupply<'_>, set: &TaskSet, notes: &[String]) -> String {
    let mut text = format!("tasks, {}:\n", words::policy(set.policy));
    let rows: Vec<(&PeriodicTask, &TaskVerdict)> = set.tasks.iter().zip(&cpu.judged).collect();
    text += &table::of(&rows, |it| {
        it.name("task", |(task, _)| Some(&task.name))
            .time("cost", |(task, _)| Some(task.cost_ns))
            .time("deadline", |(task, _)| Some(task.deadline_ns))
            .time("response", |(_, it)| it.response.map(|it| it.bound_ns))
            .time("slack", |(task, it)| {
                it.response
                    .and_then(|it| task.deadline_ns.checked_sub(it.bound_ns))
            })
            .figure("breakdown gap", |(_, it)| words::gap(it.breakdown_gap))
            .name("", |(_, it)| Some(words::verdict(it.verdict)))
    });
    for (task, judged) in &rows {
        for why in words::why(cpu, judged)
            .into_iter()
            .chain(words::excluded(judged))
        {
            text += &format!(" {}: {why}\n", task.name);
        }
    }
    if let Some(blocking_ns) = cpu.blocking_ns {
        text += &format!(
            " each response includes the worst latency of timers, {}\n",
            human(blocking_ns)
        );
    }
    for note in notes {
        text += &format!(" {note}\n");
    }
    text += &decisive(cpu, &rows);
    text
}

/// Renders the evidence for the task with the longest response: the number of windows in the
/// recordings, and the time taken in the worst window.
fn decisive(cpu: &CpuSupply<'_>, rows: &[(&PeriodicTask, &TaskVerdict)]) -> String {
    let bounds = rows
        .iter()
        .filter_map(|(task, it)| Some((task, it.response?, it.windows?)));
    let Some((task, response, windows)) = bounds.max_by_key(|(_, it, _)| it.bound_ns) else {
        return String::new();
    };
    format!(
        " {}: the recordings are as long as {windows} windows of {}; most time taken from any window as long as its response: \
         {}
 {}
 {}
",
        task.name,
        human(response.busy_window_ns.max(task.period_ns)),
        words::growth(cpu, response.bound_ns),
        words::day(cpu, response.bound_ns),
        words::NO_WORST_CASE
    )
}
