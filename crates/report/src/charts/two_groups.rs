//! Chart of two groups of recordings: each figure of each run.

use serde_json::{Value, json};
use vmnoise_judge::compare::GroupRow;

use super::axes::{of_figures, scale};
use super::{Chart, View};
use crate::beside::{ComparePage, GroupsBeside, value};

/// Draws a view for each figure that is not 0 in every run.
pub(super) fn two_groups(page: &ComparePage<'_>, of: &GroupsBeside<'_>) -> Chart {
    let files: Vec<&str> = page.runs.iter().map(|run| run.file).collect();
    let (before, after) = files.split_at(of.before.min(files.len()));
    let rows = of.groups.rows.iter().filter(|row| row.is_any());
    let views = rows.map(|row| {
        let traces = vec![
            runs("before", "#7f8f9f", row, &row.before, before),
            runs("after", "#e4572e", row, &row.after, after),
        ];
        let layout = json!({
            "xaxis": {"type": "category", "title": {"text": ""}},
            "yaxis": of_figures(page.kind, row.figure.unit()),
        });
        View::new(&row.figure.name(), traces, layout)
    });
    Chart {
        title: "Run by run",
        is_wide: false,
        note: "Each point is a run.".into(),
        views: views.collect(),
    }
}

fn runs(name: &str, colour: &str, row: &GroupRow, values: &[Option<f64>], files: &[&str]) -> Value {
    let unit = row.figure.unit();
    let known = values.iter().zip(files);
    let known = known.filter_map(|(found, file)| Some(((*found)?, file)));
    let words = known.clone();
    let words = words.map(|(found, file)| format!("{file}: {}", value(Some(found), unit)));
    let heights: Vec<f64> = known.map(|(found, _)| found * scale(unit)).collect();
    json!({
        "type": "scatter", "mode": "markers", "name": name, "x": vec![name; heights.len()],
        "y": heights, "marker": {"color": colour, "size": 11, "opacity": 0.7},
        "text": words.collect::<Vec<_>>(), "hovertemplate": "%{text}",
    })
}
