//! One row about the run itself.

use vmnoise_events::RunFacts;
use vmnoise_explain::{ExitsRun, Summary};

use super::DATA_VERSION;
use crate::partition::workload_name;
use crate::table::{Cell, Kind, Schema};

/// What is to be said of the whole run once it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// Whether it ended in order, and its clocks were good until then.
    pub complete: bool,
    /// Everything that was lost of it.
    pub lost_events: u64,
    /// What came too late to explain anything.
    pub late_events: u64,
    /// Bound of the error between its clocks, in nanoseconds; `None` where none was needed or
    /// known.
    pub clock_bound_ns: Option<u64>,
}

impl From<&Summary> for Told {
    fn from(summary: &Summary) -> Told {
        Told {
            complete: summary.complete && summary.tsc_went_back_at_ns.is_none(),
            lost_events: summary.lost_events,
            late_events: summary.late_events,
            clock_bound_ns: summary.clock_bound_ns,
        }
    }
}

impl From<&ExitsRun> for Told {
    fn from(run: &ExitsRun) -> Told {
        Told {
            complete: run.complete,
            lost_events: run.lost_events,
            late_events: run.late_events,
            clock_bound_ns: None,
        }
    }
}

/// Which exits were asked for; what is `None` was not narrowed down.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    vm: Option<&'a str>,
    vcpus: Option<String>,
    reasons: Option<String>,
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
        }
    }
}

pub(crate) fn schema() -> Schema {
    Schema::new(
        "run",
        &[
            ("data_version", Kind::Int),
            ("tool_version", Kind::Text),
            ("workload", Kind::Text),
            ("started_utc", Kind::Time),
            ("kernel", Kind::Text),
            ("hypervisor", Kind::Text),
            ("cpu_model", Kind::Text),
            ("threshold_ns", Kind::Int),
            ("only_vm", Kind::Text),
            ("only_vcpus", Kind::Text),
            ("only_reasons", Kind::Text),
            ("complete", Kind::Bool),
            ("lost_events", Kind::Int),
            ("late_events", Kind::Int),
            ("clock_bound_ns", Kind::Int),
        ],
    )
}

pub(crate) fn row<'a>(
    facts: &'a RunFacts,
    asked: &'a Asked<'_>,
    started_us: Option<i64>,
    told: Told,
) -> [Cell<'a>; 15] {
    [
        DATA_VERSION.into(),
        facts.tool_version.as_str().into(),
        workload_name(facts.workload).into(),
        started_us.into(),
        facts.host.kernel.as_str().into(),
        facts.host.hypervisor.as_deref().into(),
        facts.host.cpu_model.as_str().into(),
        facts.options.threshold_ns.into(),
        asked.vm.into(),
        asked.vcpus.as_deref().into(),
        asked.reasons.as_deref().into(),
        told.complete.into(),
        told.lost_events.into(),
        told.late_events.into(),
        told.clock_bound_ns.into(),
    ]
}
