//! Charts of the differences between recordings, and of each figure over time.

use std::borrow::Cow;

use serde_json::json;
use vmnoise_judge::compare::{ComparisonVerdict, FigureRow, RunFigures, figures_of};

use super::two_groups::two_groups;
use super::{Chart, View, axes};
use crate::beside::{ComparePage, value};
use crate::figures::duration;

/// Returns the charts of a comparison.
pub(crate) fn compare(page: &ComparePage<'_>) -> Vec<Chart> {
    let mut charts = match &page.groups {
        Some(groups) => vec![two_groups(page, groups)],
        None => vec![effects(page), windows(page)],
    };
    charts.retain(|chart| !chart.views.is_empty());
    charts
}

fn effects(page: &ComparePage<'_>) -> Chart {
    let views = page.pairs.iter().filter_map(|pair| {
        let reported = pair
            .rows
            .iter()
            .filter(|row| row.is_any() && row.delta.is_some());
        let rows: Vec<&FigureRow> = reported.rev().collect();
        let trace = |name: &str, verdict: ComparisonVerdict, colour: &'static str| {
            let of = rows.iter().filter(|row| row.verdict == verdict);
            let (x, y): (Vec<f64>, Vec<Cow<'_, str>>) = of
                .map(|row| (row.delta.unwrap_or(0.0), row.figure.name()))
                .unzip();
            json!({
                "type": "scatter", "mode": "markers", "name": name, "x": x, "y": y,
                "marker": {"color": colour, "size": 11}, "hovertemplate": "%{y}: %{x:+.2f}",
            })
        };
        let names: Vec<Cow<'_, str>> = rows.iter().map(|row| row.figure.name()).collect();
        let traces = vec![
            trace("different", ComparisonVerdict::Different, "#e4572e"),
            trace("not shown", ComparisonVerdict::NotShown, "#7f8f9f"),
        ];
        let layout = json!({
            "height": 120 + 24 * names.len(),
            "xaxis": {"title": {"text": "Cliff’s delta"}, "range": [-1.05, 1.05]},
            "yaxis": {
                "type": "category", "categoryorder": "array", "categoryarray": names,
                "automargin": true,
            },
        });
        let name = format!("{} compared with {}", page.file(pair.second), page.file(0));
        (!names.is_empty()).then(|| View::new(&name, traces, layout))
    });
    Chart {
        title: "Size of each difference",
        is_wide: false,
        note: "On the right, the second recording has higher values: at 1, each of its windows is above \
               each window of the first."
            .into(),
        views: views.collect(),
    }
}

fn windows(page: &ComparePage<'_>) -> Chart {
    let runs: Vec<&RunFigures> = page.runs.iter().map(|run| run.measured).collect();
    let views = figures_of(&runs).into_iter().filter_map(|figure| {
        let mut traces = Vec::new();
        let mut any = false;
        for run in &page.runs {
            let Some(values) = run.measured.by_window(&figure) else {
                continue;
            };
            any |= values.iter().any(|it| *it != 0.0);
            let at_s = (0..values.len()).map(|nth| nth as f64 * page.window_ns as f64 / 1e9);
            let spans = values.iter().map(|it| value(Some(*it), figure.unit()));
            let scale = axes::scale(figure.unit());
            traces.push(json!({
                "type": "scatter", "mode": "lines+markers", "name": run.file,
                "x": at_s.collect::<Vec<_>>(),
                "y": values.iter().map(|it| it * scale).collect::<Vec<_>>(),
                "line": {"width": 1.5},
                "text": spans.collect::<Vec<_>>(), "hovertemplate": "%{text}",
            }));
        }
        let axis = axes::of_figures(page.kind, figure.unit());
        let layout = json!({"xaxis": axes::run_time(), "yaxis": axis});
        (any && !traces.is_empty()).then(|| View::new(&figure.name(), traces, layout))
    });
    Chart {
        title: "Window by window",
        is_wide: false,
        note: format!("Each point is a window of {}.", duration(page.window_ns)),
        views: views.collect(),
    }
}
