//! How far recordings lie apart, and each figure window by window.

use plotly::common::{Line, Marker, Mode};
use plotly::layout::Axis;
use plotly::{Layout, Scatter, Trace};
use vmnoise_explain::compare::{Figure, Row, Unit, Verdict};

use super::{Chart, View, axes};
use crate::compare::{ComparePage, value};
use crate::figures::duration;

/// The charts of a comparison.
pub(crate) fn compare(page: &ComparePage<'_>) -> Vec<Chart> {
    let mut charts = vec![effects(page), windows(page)];
    charts.retain(|chart| !chart.views.is_empty());
    charts
}

fn effects(page: &ComparePage<'_>) -> Chart {
    let views = page.pairs.iter().filter_map(|pair| {
        let told = pair
            .rows
            .iter()
            .filter(|row| row.is_any() && row.delta.is_some());
        let rows: Vec<&Row> = told.rev().collect();
        let trace = |name: &str, verdict: Verdict, colour: &'static str| {
            let of = rows.iter().filter(|row| row.verdict == verdict);
            let (x, y): (Vec<f64>, Vec<&str>) = of
                .map(|row| (row.delta.unwrap_or(0.0), row.figure.name()))
                .unzip();
            Scatter::new(x, y)
                .name(name)
                .mode(Mode::Markers)
                .marker(Marker::new().color(colour).size(11))
                .hover_template("%{y}: %{x:+.2f}")
        };
        let names: Vec<&str> = rows.iter().map(|row| row.figure.name()).collect();
        let traces: Vec<Box<dyn Trace>> = vec![
            trace("different", Verdict::Different, "#e4572e"),
            trace("not shown", Verdict::NotShown, "#7f8f9f"),
        ];
        let layout = Layout::new()
            .height(120 + 24 * names.len())
            .x_axis(axes::plain("Cliff’s delta").range(vec![-1.05, 1.05]))
            .y_axis(
                Axis::new()
                    .type_(plotly::layout::AxisType::Category)
                    .category_order(plotly::layout::CategoryOrder::Array)
                    .category_array(names.clone())
                    .auto_margin(true),
            );
        let name = format!("{} beside {}", page.file(pair.second), page.file(0));
        (!names.is_empty()).then(|| View::new(&name, traces, layout))
    });
    Chart {
        title: "How far they lie apart",
        is_wide: false,
        note: "To the right the second recording has more: at 1 each of its windows lies above each of the \
               first."
            .into(),
        views: views.collect(),
    }
}

fn windows(page: &ComparePage<'_>) -> Chart {
    let views = Figure::all().filter_map(|figure| {
        let mut traces: Vec<Box<dyn Trace>> = Vec::new();
        let mut any = false;
        for run in &page.runs {
            let values: Option<Vec<f64>> = run
                .sample
                .windows
                .iter()
                .map(|window| figure.of(window))
                .collect();
            let Some(values) = values else { continue };
            any |= values.iter().any(|it| *it != 0.0);
            let at_s = (0..values.len()).map(|nth| nth as f64 * page.window_ns as f64 / 1e9);
            let spans = values.iter().map(|it| value(Some(*it), figure.unit()));
            let spans: Vec<String> = spans.collect();
            let scale = match figure.unit() {
                Unit::Nanoseconds => 1e-9,
                Unit::Percent | Unit::PerSecond => 1.0,
            };
            let trace = Scatter::new(at_s.collect(), values.iter().map(|it| it * scale).collect())
                .name(run.file)
                .mode(Mode::LinesMarkers)
                .line(Line::new().width(1.5))
                .text_array(spans)
                .hover_template("%{text}");
            traces.push(trace);
        }
        let axis = match figure.unit() {
            Unit::Percent => axes::plain("% of the runtime"),
            Unit::PerSecond => axes::plain("per second"),
            Unit::Nanoseconds => axes::plain("length").tick_format("~s").tick_suffix("s"),
        };
        let layout = Layout::new().x_axis(axes::run_time()).y_axis(axis);
        (any && !traces.is_empty()).then(|| View::new(figure.name(), traces, layout))
    });
    Chart {
        title: "Window by window",
        is_wide: false,
        note: format!("Each point is a window of {}.", duration(page.window_ns)),
        views: views.collect(),
    }
}
