//! For people.

use vmnoise_explain::compare::{Figure, Unit, Verdict};

use super::{Checked, Comparison, Run};
use crate::output::table;
use crate::units::{human, seconds};

/// Ends with a newline.
pub(super) fn render(
    threshold_ns: u64,
    window_ns: u64,
    runs: &[Run],
    comparisons: &[Comparison],
    checks: &[Checked],
) -> String {
    let mut text = format!(
        "Gaps of {} and more, in windows of {}\n",
        human(threshold_ns),
        human(window_ns)
    );
    let rows: Vec<[String; 7]> = (0..).zip(runs).map(|(at, run)| about(at, run)).collect();
    text += &table::columns(
        [
            "",
            "recording",
            "kernel",
            "started at",
            "runtime",
            "windows",
            "lost",
        ],
        &[0, 1, 2, 3],
        &rows,
    );
    if comparisons.is_empty() {
        text += &format!("\nIts figures\n{}", alone(&runs[0]));
    }
    for comparison in comparisons {
        let (first, second) = (letter(0), letter(comparison.second));
        text += &format!("\n{second} beside {first}\n{}", side_by_side(comparison));
    }
    if !checks.is_empty() {
        let rows: Vec<[String; 4]> = checks.iter().map(check).collect();
        text += &format!(
            "\nConditions\n{}",
            table::columns(["", "condition", "is", "holds"], &[0, 1, 3], &rows)
        );
    }
    text
}

/// A, B, … and after Z by number.
fn letter(at: usize) -> String {
    let letter = u8::try_from(at).ok().and_then(|at| b'A'.checked_add(at));
    match letter.filter(u8::is_ascii_uppercase) {
        Some(letter) => char::from(letter).to_string(),
        None => format!("#{}", at + 1),
    }
}

fn about(at: usize, run: &Run) -> [String; 7] {
    let sample = &run.sample;
    [
        letter(at),
        run.file.clone(),
        run.facts.host.kernel.to_string(),
        run.facts.started_at.to_string(),
        seconds(sample.whole.runtime_ns),
        sample.windows.len().to_string(),
        sample.lost_events.to_string(),
    ]
}

fn side_by_side(comparison: &Comparison) -> String {
    let (first, second) = (letter(0), letter(comparison.second));
    // What neither run has any of is left out; JSON has it.
    let rows = comparison.rows.iter().filter(|row| row.is_any());
    let rows: Vec<[String; 7]> = rows
        .map(|row| {
            let unit = row.figure.unit();
            [
                format!("{}{}", row.figure.name(), sign(unit)),
                value(row.first, unit),
                value(row.second, unit),
                row.shift.map_or("-".into(), |it| signed(it, unit)),
                row.delta.map_or("-".into(), |it| format!("{it:+.2}")),
                row.p.map_or("-".into(), chance),
                verdict(row.verdict).into(),
            ]
        })
        .collect();
    let shift = format!("{second} above {first}");
    table::columns(
        ["", &first, &second, &shift, "delta", "p", ""],
        &[0, 6],
        &rows,
    )
}

fn alone(run: &Run) -> String {
    let figures = Figure::all().filter_map(|figure| {
        let found = figure.of(&run.sample.whole).filter(|it| *it != 0.0)?;
        let unit = figure.unit();
        let name = format!("{}{}", figure.name(), sign(unit));
        Some([name, value(Some(found), unit)])
    });
    table::columns(["", "A"], &[0], &figures.collect::<Vec<_>>())
}

fn check(check: &Checked) -> [String; 4] {
    let holds = match check.holds {
        Some(true) => "yes: status 2",
        Some(false) => "no",
        None => "unknown: status 2",
    };
    [
        letter(check.run),
        check.condition.clone(),
        format!("{}{}", value(check.value, check.unit), sign(check.unit)),
        holds.into(),
    ]
}

fn chance(p: f64) -> String {
    match p {
        0.000_1.. => format!("{p:.4}"),
        _ => "<0.0001".into(),
    }
}

const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Different => "different",
        Verdict::NotShown => "not shown",
        Verdict::Untested => "",
    }
}

/// Behind the name or the number of a figure.
const fn sign(unit: Unit) -> &'static str {
    match unit {
        Unit::Percent => " %",
        Unit::PerSecond => " /s",
        Unit::Nanoseconds => "",
    }
}

fn value(value: Option<f64>, unit: Unit) -> String {
    match (value, unit) {
        (None, _) => "-".into(),
        (Some(value), Unit::Percent) => format!("{value:.4}"),
        (Some(value), Unit::PerSecond) => format!("{value:.1}"),
        (Some(value), Unit::Nanoseconds) => human(value.round() as u64),
    }
}

fn signed(shift: f64, unit: Unit) -> String {
    let sign = if shift < 0.0 { '-' } else { '+' };
    format!("{sign}{}", value(Some(shift.abs()), unit))
}
