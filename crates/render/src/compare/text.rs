//! Comparison as text for people.

use vmnoise_console::units::seconds;
use vmnoise_events::human;
use vmnoise_judge::compare::{ComparedFigure, ComparisonVerdict, RecordingKind};

use super::figures::{chance, sign, signed, titled, value};
use super::{ComparedRun, Comparison, ComparisonResult, groups_text};
use crate::table;

/// Renders the comparison; the text ends with a newline.
pub(super) fn render(compared: &ComparisonResult) -> String {
    let ComparisonResult {
        kind,
        threshold_ns,
        window_ns,
        runs,
        comparisons,
        groups,
        checks,
    } = compared;
    let what = match kind {
        RecordingKind::Gaps => format!("Gaps of {} and more", human(*threshold_ns)),
        RecordingKind::Wakeups => "Wake-ups".into(),
        RecordingKind::Exits => "Exits".into(),
    };
    let mut text = match groups {
        None => format!("{what}, in windows of {}\n", human(*window_ns)),
        Some(_) => format!("{what}, run by run\n"),
    };
    let lettered: Vec<(usize, &ComparedRun)> = runs.iter().enumerate().collect();
    text += &table::of(&lettered, |it| {
        it.words("", |(at, _)| letter(*at).into())
            .each(groups, |it, groups| {
                it.name("group", |(at, _)| Some(groups.name_of(*at)))
            })
            .name("recording", |(_, run)| Some(&run.file))
            .name("kernel", |(_, run)| Some(&run.facts.host.kernel))
            .name("started at", |(_, run)| Some(&run.facts.started_at))
            .figure("runtime", |(_, run)| seconds(run.measured.runtime_ns))
            .each(groups.is_none().then_some(()), |it, ()| {
                it.count("windows", |(_, run)| run.measured.windows as u64)
            })
            .count("lost", |(_, run)| run.measured.lost_events)
    });
    if let Some(groups) = groups {
        text += &groups_text::render(groups);
    } else if comparisons.is_empty() {
        text += &format!("\nFigures\n{}", alone(&runs[0]));
    }
    for comparison in comparisons {
        let (first, second) = (letter(0), letter(comparison.second));
        text += &format!(
            "\n{second} compared with {first}\n{}",
            side_by_side(comparison)
        );
    }
    let is_different = |it: &Comparison| {
        it.rows
            .iter()
            .any(|row| row.verdict == ComparisonVerdict::Different)
    };
    if comparisons.iter().any(is_different) {
        text += " different: these two runs differ by more than their windows do; several runs show whether a change made \
                 the difference (--before A1 A2 … --after B1 B2 …)\n";
    }
    if !checks.is_empty() {
        text += "\nConditions\n";
        text += &table::of(&checks[..], |it| {
            it.words("", |check| letter(check.run).into())
                .name("condition", |check| Some(&check.condition))
                .figure("is", |check| {
                    value(check.answer.value, check.unit) + sign(check.unit)
                })
                .name("holds", |check| {
                    Some(match check.answer.holds {
                        Some(true) => "yes: status 2",
                        Some(false) => "no",
                        None => "unknown: status 2",
                    })
                })
        });
    }
    for line in compared.not_seen(letter) {
        text += &format!(" {line}\n");
    }
    text
}

/// Returns the name of a run: A to Z, then #27, #28 and so on.
fn letter(at: usize) -> String {
    let letter = u8::try_from(at).ok().and_then(|at| b'A'.checked_add(at));
    match letter.filter(u8::is_ascii_uppercase) {
        Some(letter) => char::from(letter).to_string(),
        None => format!("#{}", at + 1),
    }
}

fn side_by_side(comparison: &Comparison) -> String {
    let (first, second) = (letter(0), letter(comparison.second));
    let shift = format!("{second} above {first}");
    // The text leaves out figures that are zero in both runs; the JSON contains them.
    let rows = comparison.rows.iter().filter(|row| row.is_any());
    table::of(&rows.collect::<Vec<_>>(), |it| {
        it.words("", |row| titled(&row.figure).into())
            .figure(&first, |row| value(row.first, row.figure.unit()))
            .figure(&second, |row| value(row.second, row.figure.unit()))
            .figure(&shift, |row| {
                let unit = row.figure.unit();
                row.shift.map_or("-".into(), |it| signed(it, unit))
            })
            .figure("delta", |row| {
                row.delta.map_or("-".into(), |it| format!("{it:+.2}"))
            })
            .figure("p", |row| row.p.map_or("-".into(), chance))
            .name("", |row| Some(verdict(row.verdict)))
    })
}

fn alone(run: &ComparedRun) -> String {
    let found = |it: ComparedFigure| Some((run.measured.figure(&it).filter(|it| *it != 0.0)?, it));
    let figures = run.measured.figures().into_iter().filter_map(found);
    let figures: Vec<(f64, ComparedFigure)> = figures.collect();
    table::of(&figures, |it| {
        it.words("", |(_, figure)| titled(figure).into())
            .figure("A", |(found, figure)| value(Some(*found), figure.unit()))
    })
}

const fn verdict(verdict: ComparisonVerdict) -> &'static str {
    match verdict {
        ComparisonVerdict::Different => "different",
        ComparisonVerdict::NotShown => "not shown",
        ComparisonVerdict::Untested => "",
    }
}
