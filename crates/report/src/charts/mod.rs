//! Charts of a run, in the data format of the charts' library. The page adds colours and fonts, for
//! a light or a dark background.

mod axes;
mod compare;
mod distribution;
mod exits;
mod fleet;
mod left;
mod over_time;
mod periodic;
mod phases;
mod spikes;
mod two_groups;

pub(crate) use compare::compare;
pub(crate) use distribution::beside;
pub(crate) use fleet::fleet;
pub(crate) use spikes::{Spikes, spikes};

use serde_json::{Value, json};

use crate::figures::sum;
use crate::run::{ReportedRun, RunOutcome};

/// Largest number of CPUs or vCPUs that are drawn as separate lines.
const LANES: usize = 16;

/// A chart of the page.
#[derive(Debug)]
pub(crate) struct Chart {
    pub(crate) title: &'static str,
    /// Whether the chart needs the full width of the page.
    pub(crate) is_wide: bool,
    /// Explanation of the chart.
    pub(crate) note: String,
    /// Views of the chart. If there are several, the reader selects one.
    pub(crate) views: Vec<View>,
}

/// One view of a chart.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) name: String,
    /// Fields `data` and `layout` of the library, as JSON.
    pub(crate) json: String,
}

impl View {
    fn new(name: &str, traces: Vec<Value>, layout: Value) -> View {
        View {
            name: name.to_owned(),
            json: harmless(&json!({"data": traces, "layout": layout})),
        }
    }
}

/// Formats JSON for a script of the page. Escapes `<`, so that a process name cannot end the
/// script.
fn harmless(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c")
}

/// Returns the charts in the order of the page. The chart of spikes is not included: it comes
/// first, and the page's own script draws it.
pub(crate) fn charts(run: &ReportedRun) -> Vec<Chart> {
    let mut charts = vec![over_time::shares(run), over_time::heat(run)];
    charts.push(distribution::histogram(run));
    charts.push(distribution::tail(run));
    charts.push(left::left(run));
    charts.push(phases::phases(run));
    if let RunOutcome::Exits(exits) = &run.outcome {
        charts.push(exits::reasons(exits));
        charts.push(exits::tails(exits));
    }
    charts.push(periodic::periodic(run));
    charts.retain(|chart| !chart.views.is_empty());
    charts
}

/// Returns the indices of the CPUs or vCPUs to draw: those that lost the most time, in their own
/// order.
fn drawn(run: &ReportedRun) -> Vec<usize> {
    let mut lanes_ns = vec![0u64; run.gathered.lanes.len()];
    for taker in &run.gathered.takers {
        lanes_ns[taker.lane] = sum([lanes_ns[taker.lane], taker.total_ns]);
    }
    let mut lanes: Vec<usize> = (0..lanes_ns.len()).collect();
    lanes.sort_by_key(|lane| (std::cmp::Reverse(lanes_ns[*lane]), *lane));
    lanes.truncate(LANES);
    lanes.sort_by_key(|lane| run.gathered.lanes[*lane]);
    lanes
}
