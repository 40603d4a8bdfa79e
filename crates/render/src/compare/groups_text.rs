//! Comparison of two groups of runs as text for people.

use vmnoise_judge::compare::{GroupRow, GroupVerdict, Groups, LEVEL, ShiftInterval};

use super::TwoGroups;
use super::figures::{chance, signed, titled, value};
use crate::table;

/// Renders the groups. The text begins with an empty line, and ends with a newline.
pub(super) fn render(of: &TwoGroups) -> String {
    let rows: Vec<&GroupRow> = of.groups.rows.iter().filter(|row| row.is_any()).collect();
    let before = format!("before ({})", of.before);
    let after = format!("after ({})", of.after);
    let figures = table::of(&rows, |it| {
        it.words("", |row| titled(&row.figure).into())
            .figure(&before, |row| median(row, |(before, _)| before))
            .figure(&after, |row| median(row, |(_, after)| after))
            .figure("shift", |row| {
                let unit = row.figure.unit();
                row.shift.map_or("-".into(), |shift| signed(shift, unit))
            })
            .figure("at least", |row| bound(row, |interval| interval.low))
            .figure("at most", |row| bound(row, |interval| interval.high))
            .figure("p", |row| row.p.map_or("-".into(), chance))
            .figure("corrected", |row| {
                row.corrected_p.map_or("-".into(), chance)
            })
            .name("", |row| verdict(row.verdict))
    });
    let mut text = format!("\nAfter compared with before: medians of runs\n{figures}");
    for note in notes(of) {
        text += &format!("\n{note}\n");
    }
    text
}

/// Returns notes about the validity of the table.
fn notes(of: &TwoGroups) -> Vec<String> {
    let groups = &of.groups;
    let mut notes = Vec::new();
    if groups.are_too_few() {
        notes.push(too_few(groups));
    }
    if of.is_one_after_the_other {
        notes.push(
            "All runs before the change began earlier than all runs after it, so another change in that \
             time looks like this one. Alternate the runs: before, after, before, after."
                .into(),
        );
    }
    notes
}

/// Returns a note that there are too few runs for a verdict, and how many runs would be enough.
fn too_few(groups: &Groups) -> String {
    let needed = match groups.needed {
        Some(needed) => format!("each group needs {needed} runs"),
        None => "more runs are needed than can be compared".into(),
    };
    format!(
        "Too few runs for a verdict: the least p that they can have is {}, but for {} tested figures it \
         must be {} or less; {needed}.",
        chance(groups.least_p),
        groups.tested,
        chance(LEVEL / groups.tested as f64),
    )
}

fn median(row: &GroupRow, of: impl Fn((f64, f64)) -> f64) -> String {
    value(row.medians.map(of), row.figure.unit())
}

fn bound(row: &GroupRow, of: impl Fn(ShiftInterval) -> f64) -> String {
    let unit = row.figure.unit();
    row.interval.map_or("-".into(), |it| signed(of(it), unit))
}

const fn verdict(verdict: GroupVerdict) -> Option<&'static str> {
    Some(match verdict {
        GroupVerdict::Different => "different",
        GroupVerdict::NotShown => "not shown",
        GroupVerdict::TooFewRuns => "too few runs",
        GroupVerdict::Untested => "",
    })
}
