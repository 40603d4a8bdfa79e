//! The table `run`: one row about the run itself.

use vmnoise_events::column::Columns;
use vmnoise_events::coverage::{ClockCoverage, RunEnd};
use vmnoise_events::{Policy, RunFacts};
use vmnoise_explain::{ExitsRun, Summary};

use crate::partition::workload_name;
use crate::table::{ColumnKind, DATA_VERSION, Schema};

/// Facts about the whole run that are known only at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunReport {
    /// Whether the run ended normally, and its clocks were good until the end.
    pub complete: bool,
    /// Number of events that were lost.
    pub lost_events: u64,
    /// Number of lost events that may have been gaps; `None` if the run measures no gaps.
    pub lost_gaps: Option<u64>,
    /// Number of events that came too late to explain anything.
    pub late_events: u64,
    /// How the run ended.
    pub end: RunEnd,
    /// Planned duration, in nanoseconds; `None` if the run had no time limit.
    pub planned_ns: Option<u64>,
    /// Errors and jumps of the run's clocks.
    pub clock: ClockCoverage,
    /// Whether the gaps add up to more than the measured time.
    pub is_damaged: bool,
}

impl From<&Summary> for RunReport {
    fn from(summary: &Summary) -> RunReport {
        let coverage = &summary.coverage;
        RunReport {
            complete: summary.complete && summary.tsc_went_back_at_ns.is_none(),
            lost_events: summary.lost_events,
            lost_gaps: summary.wakeups.is_none().then_some(coverage.lost.gaps),
            late_events: summary.late_events,
            end: coverage.end,
            planned_ns: coverage.planned_ns,
            clock: coverage.clock,
            is_damaged: coverage.more_taken_than_measured,
        }
    }
}

impl From<&ExitsRun> for RunReport {
    fn from(run: &ExitsRun) -> RunReport {
        let coverage = &run.coverage;
        RunReport {
            complete: run.complete,
            lost_events: run.lost_events,
            lost_gaps: None,
            late_events: run.late_events,
            end: coverage.end,
            planned_ns: coverage.planned_ns,
            clock: coverage.clock,
            is_damaged: coverage.more_taken_than_measured,
        }
    }
}

/// Options that the user requested. `None` means all exits, or an inherited scheduling policy.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    vm: Option<&'a str>,
    vcpus: Option<String>,
    reasons: Option<String>,
    /// Requested scheduling policy of the measuring threads.
    policy: Option<String>,
}

impl Asked<'_> {
    pub(crate) fn of(facts: &RunFacts) -> Asked<'_> {
        let filter = facts.options.exits.as_ref();
        let vcpus = filter.and_then(|filter| filter.vcpus.as_ref());
        let vcpus = vcpus.map(|numbers| numbers.iter().map(u32::to_string).collect::<Vec<_>>());
        let reasons = filter.map(|filter| filter.reasons.join(","));
        Asked {
            vm: filter.and_then(|filter| filter.vm.as_deref()),
            vcpus: vcpus.map(|numbers| numbers.join(",")),
            reasons: reasons.filter(|reasons| !reasons.is_empty()),
            policy: facts.options.priority.map(Policy::letters),
        }
    }
}

/// A run's facts, its requested options, and its result.
pub(crate) type Row<'a> = (&'a RunFacts, &'a Asked<'a>, RunReport);

pub(crate) fn schema() -> Schema {
    Schema::new("run", &[])
        .with_columns(&program())
        .with(&[("started_utc", ColumnKind::Time)])
        .with_columns(&columns())
}

/// Returns the columns about the program that recorded.
pub(crate) fn program<'a>() -> Columns<'static, Row<'a>> {
    Columns::<Row<'a>>::default()
        .count("data_version", |_| u64::from(DATA_VERSION))
        .name("tool_version", |(facts, ..)| Some(&facts.tool_version))
        .name("workload", |(facts, ..)| {
            Some(workload_name(facts.workload))
        })
}

/// Returns the columns about the run and its result.
pub(crate) fn columns<'a>() -> Columns<'static, Row<'a>> {
    Columns::<Row<'a>>::default()
        .count("rank", |(facts, ..)| facts.rank.map(u64::from))
        .name("kernel", |(facts, ..)| Some(&facts.host.kernel))
        .name("hypervisor", |(facts, ..)| facts.host.hypervisor.as_deref())
        .name("cpu_model", |(facts, ..)| Some(&facts.host.cpu_model))
        .time("threshold_ns", |(facts, ..)| facts.options.threshold_ns)
        .truth("pauses", |(facts, ..)| facts.options.pauses())
        .name("policy", |(_, asked, _)| asked.policy.as_deref())
        .name("only_vm", |(_, asked, _)| asked.vm)
        .name("only_vcpus", |(_, asked, _)| asked.vcpus.as_deref())
        .name("only_reasons", |(_, asked, _)| asked.reasons.as_deref())
        .truth("complete", |(.., reported)| reported.complete)
        .count("lost_events", |(.., reported)| reported.lost_events)
        .count("lost_gaps", |(.., reported)| reported.lost_gaps)
        .count("late_events", |(.., reported)| reported.late_events)
        .time("clock_bound_ns", |(.., reported)| reported.clock.bound_ns)
        .name("ended", |(.., reported)| Some(end_name(reported.end)))
        .time("planned_ns", |(.., reported)| reported.planned_ns)
        .count("clock_jumps", |(.., reported)| reported.clock.jumps)
        .time("undated_ns", |(.., reported)| reported.clock.undated_ns)
        .time("clock_lost_ns", |(.., reported)| {
            reported.clock.went_back_at_ns
        })
        .truth("damaged", |(.., reported)| reported.is_damaged)
}

/// Returns the name of a run's end in the table.
pub(crate) fn end_name(end: RunEnd) -> &'static str {
    match end {
        RunEnd::InOrder => "in_order",
        RunEnd::Failed => "failed",
        RunEnd::CutOff => "cut_off",
    }
}

/// Returns the end of a run with this name; `None` if the name is unknown.
pub(crate) fn end_named(name: &str) -> Option<RunEnd> {
    let mut all = [RunEnd::InOrder, RunEnd::Failed, RunEnd::CutOff].into_iter();
    all.find(|it| end_name(*it) == name)
}
