//! Charts of the lengths of gaps, wake-ups or exits.

use hdrhistogram::Histogram;
use serde_json::json;
use vmnoise_explain::{floor_ns, next_floor_ns};

use super::{Chart, View, axes, drawn};
use crate::figures::{duration, part_of, percent, sum, times};
use crate::run::ReportedRun;
use crate::tables::some_of;

/// Returns a histogram: the number of gaps, wake-ups or exits by length.
pub(super) fn histogram(run: &ReportedRun) -> Chart {
    let lengths = &run.gathered.lengths;
    let mut views = Vec::new();
    let all: Vec<&Histogram<u64>> = lengths.iter().collect();
    if all.len() > 1 {
        views.push(steps(run, &format!("all {}s", run.words().lane), &all));
    }
    for lane in drawn(run) {
        views.push(steps(run, run.lane_name(lane), &all[lane..=lane]));
    }
    Chart {
        title: "How long they were",
        is_wide: false,
        note: format!(
            "The number of {} of each length. Both axes are logarithmic. A step is at most a quarter of its length wide.",
            run.words().many
        ),
        views,
    }
}

fn steps(run: &ReportedRun, name: &str, lengths: &[&Histogram<u64>]) -> View {
    let mut counts = std::collections::BTreeMap::new();
    for bucket in lengths.iter().flat_map(|it| it.iter_recorded()) {
        let length_ns = bucket.value_iterated_to();
        *counts.entry(floor_ns(length_ns)).or_insert(0u64) += bucket.count_at_value();
    }
    let most = counts.values().max().copied().unwrap_or(0);
    let (mut edges, mut heights, mut spans) = (Vec::new(), Vec::new(), Vec::new());
    let mut until_ns = None;
    let nothing = 0.5; // Below one, which is the bottom of a logarithmic axis.
    for (from_ns, count) in counts {
        // The line drops to the bottom where buckets are empty.
        if let Some(until_ns) = until_ns.filter(|until_ns| *until_ns < from_ns) {
            edges.push(axes::length(until_ns));
            heights.push(nothing);
            spans.push(String::new());
        }
        let next_ns = next_floor_ns(from_ns);
        edges.push(axes::length(from_ns));
        heights.push(count as f64);
        spans.push(format!(
            "{} from {} to {}",
            times(count, run.words().one, run.words().many),
            duration(from_ns),
            duration(next_ns)
        ));
        until_ns = Some(next_ns);
    }
    if let Some(until_ns) = until_ns {
        edges.push(axes::length(until_ns));
        heights.push(nothing);
        spans.push(String::new());
    }
    let trace = json!({
        "type": "scatter", "mode": "lines", "x": edges, "y": heights,
        "fill": "tozeroy", "fillcolor": "rgba(63,127,214,0.25)",
        "line": {"shape": "hv", "width": 1.5, "color": "#3f7fd6"}, "showlegend": false,
        "text": spans, "hovertemplate": "%{text}<extra></extra>",
    });
    let layout = json!({
        "xaxis": axes::lengths(run.words().length),
        // Tick marks are at the powers of ten.
        "yaxis": {
            "title": {"text": run.words().many}, "type": "log", "dtick": 1.0,
            "range": [-0.3, power_above(most)],
        },
    });
    View::new(name, vec![trace], layout)
}

fn power_above(count: u64) -> f64 {
    (count.max(2) as f64 * 1.3).log10()
}

/// Returns the part of gaps, wake-ups or exits that are longer than each length.
pub(super) fn tail(run: &ReportedRun) -> Chart {
    let lanes = drawn(run);
    let lengths = &run.gathered.lengths;
    let lines = lanes
        .iter()
        .map(|lane| (run.lane_name(*lane).to_owned(), &lengths[*lane]));
    let lines: Vec<(String, Vec<(u64, u64)>)> = lines
        .map(|(name, lengths)| (name, counts(lengths)))
        .collect();
    Chart {
        title: "How many were longer",
        is_wide: false,
        note: format!(
            "The part of all {} that is longer than each length.{}",
            run.words().many,
            some_of(lanes.len(), lengths.len(), run.words().lane)
        ),
        views: vec![tails(&lines, run.words().length)],
    }
}

/// Returns a chart that compares the lengths in several runs; `None` if there are no lengths.
pub(crate) fn beside(runs: &[ReportedRun]) -> Option<Chart> {
    let lines: Vec<(String, Vec<(u64, u64)>)> = runs
        .iter()
        .filter(|run| run.gathered.count() > 0)
        .map(|run| {
            let mut all: Vec<(u64, u64)> = run.gathered.lengths.iter().flat_map(counts).collect();
            all.sort_unstable();
            (run.file.clone(), all)
        })
        .collect();
    (lines.len() > 1).then(|| Chart {
        title: "Lengths in all recordings",
        is_wide: true,
        note: "The part of all gaps, exits or wake-ups of a recording that is longer than each length."
            .into(),
        views: vec![tails(&lines, "length")],
    })
}

/// Draws a line for each name from its pairs of length (ascending) and count.
pub(super) fn tails(lines: &[(String, Vec<(u64, u64)>)], title: &str) -> View {
    let mut traces = Vec::new();
    for (nth, (name, counts)) in lines.iter().enumerate() {
        // Colours repeat after eight lines, so later lines are dotted.
        let dash = match nth {
            0..8 => "solid",
            _ => "dot",
        };
        let all = sum(counts.iter().map(|(_, count)| *count));
        let mut longer = all;
        let (mut x, mut y, mut spans) = (Vec::new(), Vec::new(), Vec::new());
        for (length_ns, count) in counts {
            let part = percent(part_of(longer, all));
            spans.push(format!("{part} last at least {}", duration(*length_ns)));
            x.push(axes::length(*length_ns));
            y.push(digits(longer as f64 / all.max(1) as f64));
            longer = longer.saturating_sub(*count);
        }
        traces.push(json!({
            "type": "scatter", "mode": "lines", "name": name, "x": x, "y": y,
            "line": {"shape": "hv", "width": 1.8, "dash": dash},
            "text": spans, "hovertemplate": "%{text}",
        }));
    }
    let layout = json!({
        "xaxis": axes::lengths(title),
        "yaxis": {
            "title": {"text": "part of all"}, "type": "log", "dtick": 1.0, "tickformat": "~%",
        },
    });
    View::new("", traces, layout)
}

fn counts(lengths: &Histogram<u64>) -> Vec<(u64, u64)> {
    let recorded = lengths.iter_recorded();
    let max_ns = lengths.max();
    recorded
        .map(|bucket| {
            (
                bucket.value_iterated_to().min(max_ns),
                bucket.count_at_value(),
            )
        })
        .collect()
}

/// Rounds to four significant digits, which are enough for a line.
fn digits(part: f64) -> f64 {
    format!("{part:.3e}").parse().unwrap_or(part)
}
