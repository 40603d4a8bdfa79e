//! The charts of one run, as the library's own data. The page supplies colours and fonts, light or
//! dark.

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

/// Number of lanes that are drawn singly.
const LANES: usize = 16;

/// A chart.
#[derive(Debug)]
pub(crate) struct Chart {
    pub(crate) title: &'static str,
    /// True if the chart needs the full width of the page.
    pub(crate) is_wide: bool,
    /// Explanation of the picture.
    pub(crate) note: String,
    /// One view, or several to choose from.
    pub(crate) views: Vec<View>,
}

/// One view of a chart.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) name: String,
    /// The library's `data` and `layout`.
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

/// Returns JSON for a script of the page. A name from a foreign process must not end that script.
fn harmless(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c")
}

/// Returns the charts in the order of the page, after the chart of spikes, which the page draws
/// itself.
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

/// Returns the indices of the lanes that are drawn: those that lost most, in their own order.
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
