//! Charts of the lost time during the run.

use serde_json::{Value, json};
use vmnoise_events::Share;

use super::{Chart, View, axes, drawn};
use crate::figures::{duration, part_of, sum};
use crate::run::ReportedRun;
use crate::shares::{colour, label};
use crate::tables::some_of;

/// Largest height of all rows of the heat map, in pixels, so that the map fits on a sheet of paper.
const HEAT_MOST: usize = 760;
/// Height above and below the rows, in pixels.
const HEAT_EDGES: usize = 110;

/// Draws the lost time by share: for all CPUs or vCPUs together, and for each one.
pub(super) fn shares(run: &ReportedRun) -> Chart {
    let even = &run.gathered.windows;
    let lanes = drawn(run);
    let mut views = Vec::new();
    if even.len() > 1 {
        let all: Vec<usize> = (0..even.lanes()).collect();
        let together = format!("all {}s", run.words().lane);
        if all.len() > 1 {
            views.push(stacked(&together, run, &all));
        }
        for lane in &lanes {
            views.push(stacked(run.lane_name(*lane), run, &[*lane]));
        }
    }
    Chart {
        title: "Who took which part of the time",
        is_wide: true,
        note: format!(
            "Each step is {} long.{}",
            duration(even.width_ns),
            some_of(lanes.len(), even.lanes(), run.words().lane)
        ),
        views,
    }
}

fn stacked(name: &str, run: &ReportedRun, lanes: &[usize]) -> View {
    let even = &run.gathered.windows;
    let at_s: Vec<f64> = even
        .begins_mono_ns()
        .map(|mono_ns| round(run.at_ns(mono_ns) as f64 / 1e9))
        .collect();
    let taken = |share: Share, place: usize| -> u64 {
        let windows = lanes.iter().filter_map(|lane| even.of(*lane, place));
        sum(windows.map(|window| window.shares_ns[share]))
    };
    let whole_ns = even.width_ns.saturating_mul(lanes.len() as u64);
    let mut traces = Vec::new();
    for share in Share::ALL {
        let percent: Vec<f64> = (0..even.len())
            .map(|place| round(part_of(taken(share, place), whole_ns)))
            .collect();
        if percent.iter().all(|it| *it == 0.0) {
            continue;
        }
        traces.push(json!({
            "type": "scatter", "mode": "lines", "name": label(share), "x": at_s, "y": percent,
            "stackgroup": "shares", "fillcolor": colour(share),
            "line": {"width": 0.0, "color": colour(share), "shape": "hv"},
            "hovertemplate": "%{y:.3f} %",
        }));
    }
    let layout = json!({
        "xaxis": axes::run_time(), "yaxis": axes::plain("% of the time"), "hovermode": "x unified",
    });
    View::new(name, traces, layout)
}

/// Draws the lost time of each CPU or vCPU as a row. Darker cells mean more loss.
pub(super) fn heat(run: &ReportedRun) -> Chart {
    let even = &run.gathered.windows;
    let mut views = Vec::new();
    // The chart of shares already shows a single row.
    if even.len() > 1 && even.lanes() > 1 {
        let width_ns = even.width_ns;
        let middles_ns = even
            .begins_mono_ns()
            .map(|mono_ns| run.at_ns(mono_ns.saturating_add(width_ns / 2)));
        let at_s: Vec<f64> = middles_ns.map(|ns| round(ns as f64 / 1e9)).collect();
        let mut order: Vec<usize> = (0..even.lanes()).collect();
        // The chart draws its rows from the bottom up.
        order.sort_by_key(|lane| std::cmp::Reverse(run.gathered.lanes[*lane]));
        let names: Vec<String> = order
            .iter()
            .map(|lane| run.lane_name(*lane).to_owned())
            .collect();
        let rows = names.len();
        let percent = |lane: usize, place: usize| {
            let window = even.of(lane, place);
            part_of(window.map_or(0, |it| it.shares_ns.total()), width_ns)
        };
        // Noise covers many powers of ten, so the colour shows the logarithm.
        let powers: Vec<Vec<f64>> = order
            .iter()
            .map(|lane| {
                (0..even.len())
                    .map(|at| round(percent(*lane, at).max(0.001).log10()))
                    .collect()
            })
            .collect();
        let trace = json!({
            "type": "heatmap", "x": at_s, "y": names, "z": powers, "zmin": -3.0, "zmax": 2.0,
            "colorscale": scale(),
            "colorbar": {
                "tickvals": [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0],
                "ticktext": ["≤ 0.001 %", "0.01 %", "0.1 %", "1 %", "10 %", "100 %"],
                "thickness": 12, "outlinewidth": 0, "tickfont": {"size": 10},
            },
            "hovertemplate": "%{y}, %{x} s: 10<sup>%{z:.1f}</sup> %<extra></extra>",
        });
        let layout = json!({
            "height": HEAT_EDGES + (16 * rows).clamp(80, HEAT_MOST),
            "xaxis": axes::run_time(),
            "yaxis": {"title": {"text": ""}, "type": "category"},
        });
        views.push(View::new("", vec![trace], layout));
    }
    Chart {
        title: "Who lost time when",
        is_wide: true,
        note: format!(
            "One row for each {}, one column for each {}. The colour shows the part of the time that was lost.",
            run.words().lane,
            duration(even.width_ns)
        ),
        views,
    }
}

/// Returns the colours of the heat map, from transparent (no loss) to the darkest (all time lost).
fn scale() -> Value {
    json!([
        [0.0, "rgba(127,143,159,0.06)"],
        [0.2, "rgba(63,127,214,0.25)"],
        [0.4, "#3f7fd6"],
        [0.6, "#8a63c9"],
        [0.8, "#e4572e"],
        [1.0, "#ffb000"],
    ])
}

/// Rounds off digits that charts do not show.
fn round(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}
