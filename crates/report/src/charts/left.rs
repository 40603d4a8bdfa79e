//! Chart of the least CPU time left in windows of each length.

use serde_json::json;

use super::{Chart, View, axes, drawn};
use crate::figures::duration;
use crate::run::ReportedRun;
use crate::tables::some_of;

/// Draws, for each length, the least time left in any window of this length, in percent. The chart
/// has no views if this time is unknown.
pub(super) fn left(run: &ReportedRun) -> Chart {
    let lanes = drawn(run);
    let lines = run.left.iter().filter(|(lane, _)| lanes.contains(lane));
    let traces: Vec<_> = lines
        .map(|(lane, points)| {
            let part = |(length_ns, left_ns): &(u64, u64)| {
                let percent = 100.0 * *left_ns as f64 / (*length_ns).max(1) as f64;
                (percent * 1e4).round() / 1e4
            };
            let said = points.iter().map(|(length_ns, left_ns)| {
                format!(
                    "any window of {} has at least {} left",
                    duration(*length_ns),
                    duration(*left_ns)
                )
            });
            json!({
                "type": "scatter", "mode": "lines", "name": run.lane_name(*lane),
                "x": points.iter().map(|it| axes::length(it.0)).collect::<Vec<_>>(),
                "y": points.iter().map(part).collect::<Vec<_>>(),
                "line": {"width": 1.8},
                "text": said.collect::<Vec<_>>(), "hovertemplate": "%{text}",
            })
        })
        .collect();
    let layout = json!({
        "xaxis": axes::lengths("length of a window"),
        "yaxis": axes::plain("least time left (%)"),
    });
    let views = match traces.is_empty() {
        true => Vec::new(),
        false => vec![View::new("", traces, layout)],
    };
    Chart {
        title: "Least time left in any window",
        is_wide: false,
        note: format!(
            "The least CPU time left in any window of each length. `vmnoise schedule` checks deadlines against it, \
             and also counts time that was not observed.{}",
            some_of(lanes.len(), run.gathered.lanes.len(), run.words().lane)
        ),
        views,
    }
}
