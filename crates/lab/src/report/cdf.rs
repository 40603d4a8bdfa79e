//! Draws cumulative distributions of latencies, on a logarithmic axis as in the papers.

use std::fmt::Write;

use super::measured::Measured;
use super::words::worst;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 320.0;
/// Margin for the labels of the vertical axis.
const LEFT: f64 = 48.0;
const BELOW: f64 = 36.0;
const ABOVE: f64 = 8.0;
const RIGHT: f64 = 28.0;
/// Colours of the lines. Solid, dashed and dotted lines alternate, so that the lines also differ
/// without colours.
const COLOURS: [&str; 6] = [
    "#0b62a4", "#c23b22", "#2e8540", "#7a3e9d", "#b8860b", "#444444",
];

/// Returns an SVG drawing with a legend, and with one line for each cell. The line shows the
/// repetition that contains the longest sample. `None` without samples.
pub(super) fn drawing(measured: &Measured) -> Option<String> {
    let lines = measured.cells.iter();
    let lines: Vec<(&str, _)> = lines
        .filter_map(|ended| Some((&*ended.cell, worst(&ended.repetitions)?)))
        .collect();
    let all = || lines.iter().flat_map(|(_, it)| &it.lengths);
    let least = all().map(|(ns, _)| *ns).min()?.max(1);
    let most = all().map(|(ns, _)| *ns).max()?;
    let (first, last) = (
        decade(least).floor(),
        decade(most).ceil().max(decade(least).floor() + 1.0),
    );
    let x = |ns: u64| LEFT + (decade(ns) - first) / (last - first) * (WIDTH - LEFT - 8.0);
    let y = |part: f64| ABOVE + (1.0 - part) * (HEIGHT - ABOVE - BELOW);
    let legend = 18.0 * lines.len().div_ceil(2) as f64;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"Cumulative distributions, one line a cell\">",
        HEIGHT + legend
    );
    grid(&mut svg, first, last, x, y);
    for (at, (cell, figures)) in lines.iter().enumerate() {
        let (colour, dash) = style(at);
        let (mut seen, count) = (0, figures.count() as f64);
        let mut points = String::new();
        for (ns, times) in &figures.lengths {
            let before = y(seen as f64 / count);
            seen += times;
            let (x, after) = (x(*ns), y(seen as f64 / count));
            _ = write!(points, "{x:.1},{before:.1} {x:.1},{after:.1} ");
        }
        _ = write!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"{dash}/>",
            points.trim_end()
        );
        let (x, y) = (
            LEFT + 350.0 * (at % 2) as f64,
            HEIGHT + 18.0 * (at / 2) as f64 + 10.0,
        );
        _ = write!(
            svg,
            "<line x1=\"{x}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\" stroke=\"{colour}\" stroke-width=\"2\"{dash}/>\
             <text x=\"{}\" y=\"{}\">{cell}</text>",
            x + 28.0,
            x + 34.0,
            y + 4.0
        );
    }
    Some(svg + "</svg>")
}

fn decade(ns: u64) -> f64 {
    (ns.max(1) as f64 / 1e3).log10()
}

fn style(at: usize) -> (&'static str, &'static str) {
    let dash = [
        "",
        " stroke-dasharray=\"5 3\"",
        " stroke-dasharray=\"1.5 2.5\"",
    ];
    (COLOURS[at % COLOURS.len()], dash[at % dash.len()])
}

fn grid(svg: &mut String, first: f64, last: f64, x: impl Fn(u64) -> f64, y: impl Fn(f64) -> f64) {
    let (bottom, right) = (y(0.0), WIDTH - RIGHT);
    for part in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let y = y(part);
        _ = write!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{part}</text>",
            LEFT - 6.0,
            y + 4.0
        );
    }
    for decade in first as i32..=last as i32 {
        let ns = (1e3 * 10_f64.powi(decade)).round() as u64;
        let x = x(ns);
        let us = ns as f64 / 1e3;
        _ = write!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{ABOVE}\" y2=\"{bottom:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{us} us</text>",
            bottom + 16.0
        );
    }
}
