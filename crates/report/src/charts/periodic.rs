//! Gaps that no witness explains, folded at each period that was found among them.

use plotly::common::{DashType, Line, Marker, Mode};
use plotly::{Bar, Layout, Scatter, Trace};
use vmnoise_explain::Periodic;

use super::{Chart, View, axes};
use crate::figures::{duration, times};
use crate::run::Run;

/// One view for each period.
pub(super) fn periodic(run: &Run) -> Chart {
    let found = run.summary().map_or(&[][..], |it| &it.periodic);
    Chart {
        title: "What comes back by a clock",
        is_wide: true,
        note: "All gaps of a CPU that no witness explains, laid over each other at the period that was \
               found. What keeps the beat stands in the middle; what does not is spread evenly, about as \
               high as the line."
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
    let bars = Bar::new(
        at_s.clone(),
        found.fold.iter().map(|cell| cell.gaps).collect(),
    )
    .name("gaps")
    .marker(Marker::new().color("#7f8f9f"))
    .width(width_s * 0.9)
    .hover_text_array(spans.collect())
    .hover_template("%{hovertext}<extra></extra>");
    let all: u64 = found.fold.iter().map(|cell| cell.gaps).sum();
    let off_beat = all.saturating_sub(found.gaps) as f64 / cells;
    let ends: Vec<f64> = at_s
        .first()
        .into_iter()
        .chain(at_s.last())
        .copied()
        .collect();
    let even = Scatter::new(ends.clone(), vec![off_beat; ends.len()])
        .name("those off the beat, spread evenly")
        .mode(Mode::Lines)
        .line(Line::new().color("#e4572e").width(1.5).dash(DashType::Dash))
        .hover_template("%{y:.1f} gaps<extra></extra>");
    let traces: Vec<Box<dyn Trace>> = vec![bars, even];
    let name = format!(
        "CPU {}: {} every {:.6}\u{a0}ms, {}",
        found.cpu,
        duration(found.mean_gap_ns),
        found.period_ns as f64 / 1e6,
        times(found.gaps, "time", "times")
    );
    let layout = Layout::new()
        .x_axis(
            axes::plain("time from the beat")
                .tick_format("~s")
                .tick_suffix("s"),
        )
        .y_axis(axes::plain("gaps"));
    View::new(&name, traces, layout)
}
