//! Formats figures as text, in the same way for all files of the report.

use crate::figures::{RepetitionFigures, Who};
use crate::scenario::{PaperFigure, PublishedTable, Statistic};

/// Text for a figure that is unknown for at least one repetition.
const NOT_KNOWN: &str = "not known";

/// Shortens a failure: returns its first line without the console, and its last console line.
pub fn brief(failure: &str) -> String {
    let mut lines = failure.lines();
    let first = lines.next().unwrap_or_default();
    let first = first.split("; its console ends").next().unwrap_or(first);
    match lines.next_back() {
        Some(last) => format!("{first} … {last}"),
        None => first.to_owned(),
    }
}

/// Describes a paper's figure for a cell. Adds the measured figure if there is one, and if the
/// report has no separate column for it. `None` if the paper has no figure.
pub(super) fn beside(
    published: &PublishedTable,
    cell: &str,
    repetitions: &[RepetitionFigures],
) -> Option<String> {
    let figure = published.cells.get(cell)?;
    let statistic = published.statistic;
    let has_column = matches!(statistic, Statistic::Worst | Statistic::Noise);
    if has_column || repetitions.is_empty() {
        return Some(figure.to_string());
    }
    let here = repetitions.iter().map(|it| it.statistic(statistic));
    let here: Option<Vec<f64>> = here.collect();
    let here = here.map_or(NOT_KNOWN.to_owned(), |all| match figure {
        PaperFigure::Length(_) => format!("{} us", range_us(all.into_iter().map(|ns| ns as u64))),
        PaperFigure::Percent(_) => format!("{}%", range_percent(&all)),
    });
    Some(format!("{figure}, here {here}"))
}

/// Returns the repetition with the longest sample; `None` without repetitions.
pub(super) fn worst(repetitions: &[RepetitionFigures]) -> Option<&RepetitionFigures> {
    repetitions.iter().max_by_key(|it| it.worst_ns)
}

/// Formats a quantile in microseconds. For several repetitions, formats the smallest and the
/// largest.
pub(super) fn quantile_us(repetitions: &[RepetitionFigures], part: f64) -> String {
    let all = repetitions.iter().map(|it| it.quantile_ns(part));
    let all: Option<Vec<u64>> = all.collect();
    all.map_or(NOT_KNOWN.to_owned(), |all| range_us(all.into_iter()))
}

/// Formats lengths in microseconds. For several repetitions, formats the smallest and the largest.
pub(super) fn range_us(ns: impl Iterator<Item = u64> + Clone) -> String {
    let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
    match (ns.clone().min(), ns.max()) {
        (Some(least), Some(most)) if us(least) != us(most) => {
            format!("{} to {}", us(least), us(most))
        }
        (Some(ns), _) => us(ns),
        _ => String::new(),
    }
}

/// Formats the noise of cells with a polling task in percent; empty for other cells.
pub(super) fn noise_percent(repetitions: &[RepetitionFigures]) -> String {
    let all = repetitions.iter();
    let all: Vec<f64> = all
        .filter_map(|it| it.statistic(Statistic::Noise))
        .collect();
    range_percent(&all)
}

/// Formats parts (0 to 1) in percent. For several repetitions, formats the smallest and the
/// largest.
pub(super) fn range_percent(parts: &[f64]) -> String {
    let mut all = parts.to_vec();
    all.sort_by(f64::total_cmp);
    let percent = |part: f64| format!("{:.5}", 100.0 * part);
    match all[..] {
        [least, .., most] if percent(least) != percent(most) => {
            format!("{} to {}", percent(least), percent(most))
        }
        [part, ..] => percent(part),
        [] => String::new(),
    }
}

/// Formats the parts of a sample: `kvm msr 7.1 us`.
pub(super) fn words(who: &[Who]) -> String {
    let part = |who: &Who| {
        let name = who.name.as_deref().unwrap_or("(no name)");
        format!("{} {name} {:.1} us", who.share, who.ns as f64 / 1e3)
    };
    let parts: Vec<String> = who.iter().map(part).collect();
    parts.join(", ")
}

/// Formats the parts of the repetition's longest sample, and the repetition's limitations.
pub(super) fn who_made(worst: &RepetitionFigures) -> String {
    let mut said = words(&worst.who);
    let missed = Some(worst.missed).filter(|missed| *missed > 0);
    let missed = missed.map(|missed| format!("{missed} wake-ups missed"));
    let exits = worst.light.zip(worst.heavy);
    let exits = exits.map(|(light, heavy)| format!("{light} exits were light, {heavy} heavy"));
    let in_guest = worst.in_guest_ns;
    let in_guest = in_guest.map(|ns| format!("median by the guest's clock: {ns} ns"));
    let beside = [missed, exits, in_guest].into_iter().flatten();
    for caveat in worst.caveats.iter().cloned().chain(beside) {
        said += &format!(" ({caveat})");
    }
    said
}
