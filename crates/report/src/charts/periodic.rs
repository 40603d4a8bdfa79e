//! Chart of gaps without a known cause that recur with a period.

use serde_json::json;
use vmnoise_explain::Periodic;

use super::{Chart, View, axes};
use crate::figures::{duration, times};
use crate::run::ReportedRun;

/// Draws a view for each period that was found.
pub(super) fn periodic(run: &ReportedRun) -> Chart {
    let found = run.summary().map_or(&[][..], |it| &it.periodic);
    Chart {
        title: "Periodic gaps",
        is_wide: true,
        note: "All gaps of a CPU without a known cause, laid over each other at the period that was found. \
               Gaps with this period are in the middle. Other gaps are spread evenly, about as high as the \
               line."
            .into(),
        views: found.iter().map(folded).collect(),
    }
}

fn folded(found: &Periodic) -> View {
    let cells = found.fold.len().max(1) as f64;
    let width_s = found.period_ns as f64 / 1e9 / cells;
    let from_middle_s = |place: usize| (place as f64 + 0.5 - cells / 2.0) * width_s;
    let at_s: Vec<f64> = (0..found.fold.len()).map(from_middle_s).collect();
    let spans = found.fold.iter().map(|cell| {
        format!(
            "{}, {} in all",
            times(cell.gaps, "gap", "gaps"),
            duration(cell.total_ns)
        )
    });
    let gaps: Vec<u64> = found.fold.iter().map(|cell| cell.gaps).collect();
    let bars = json!({
        "type": "bar", "name": "gaps", "x": at_s, "y": gaps,
        "marker": {"color": "#7f8f9f"}, "width": width_s * 0.9,
        "hovertext": spans.collect::<Vec<_>>(), "hovertemplate": "%{hovertext}<extra></extra>",
    });
    let all: u64 = found.fold.iter().map(|cell| cell.gaps).sum();
    let off_beat = all.saturating_sub(found.gaps) as f64 / cells;
    let ends: Vec<f64> = at_s
        .first()
        .into_iter()
        .chain(at_s.last())
        .copied()
        .collect();
    let even = json!({
        "type": "scatter", "mode": "lines", "name": "other gaps, spread evenly",
        "x": ends, "y": vec![off_beat; ends.len()],
        "line": {"color": "#e4572e", "width": 1.5, "dash": "dash"},
        "hovertemplate": "%{y:.1f} gaps<extra></extra>",
    });
    let name = format!(
        "CPU {}: {} every {:.6}\u{a0}ms, {}",
        found.cpu,
        duration(found.mean_gap_ns),
        found.period_ns as f64 / 1e6,
        times(found.gaps, "time", "times")
    );
    let layout = json!({
        "xaxis": axes::plain_lengths("time from the middle of the period"), "yaxis": axes::plain("gaps"),
    });
    View::new(&name, vec![bars, even], layout)
}
