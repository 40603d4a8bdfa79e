//! Describes two groups of recordings in words.

use vmnoise_judge::compare::{GroupRow, GroupVerdict, LEVEL};

use crate::beside::{GroupsBeside, signed, value};
use crate::findings::Finding;

/// Returns a sentence that says whether they differ.
pub(crate) fn headline(of: &GroupsBeside<'_>) -> String {
    let different = different(of).count();
    match different {
        0 if of.groups.are_too_few() => {
            "So few runs cannot tell whether the change did anything.".into()
        }
        0 => "That the runs after the change differ from those before is not shown.".into(),
        1 => "The runs after the change differ from those before in one figure.".into(),
        _ => format!("The runs after the change differ from those before in {different} figures."),
    }
}

/// Returns the differences, and the facts that are needed to judge them.
pub(crate) fn findings(of: &GroupsBeside<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = different(of).map(finding).collect();
    let groups = of.groups;
    if groups.are_too_few() {
        findings.push(Finding {
            figure: groups.needed.map_or_else(|| "-".into(), |runs| format!("{runs} runs")),
            text: format!(
                "in each group are needed: the least p that so many runs can have is {:.4}, and with {} \
                 figures tested at once it has to be {:.4} or less",
                groups.least_p,
                groups.tested,
                LEVEL / groups.tested as f64
            ),
        });
    }
    if of.is_one_after_the_other {
        findings.push(Finding {
            figure: "in turns".into(),
            text: "is how runs tell a change from what else changed: all runs before it began before any \
                   after it"
                .into(),
        });
    }
    findings
}

fn different<'a>(of: &GroupsBeside<'a>) -> impl Iterator<Item = &'a GroupRow> {
    let rows = of.groups.rows.iter();
    rows.filter(|row| row.verdict == GroupVerdict::Different)
}

fn finding(row: &GroupRow) -> Finding {
    let unit = row.figure.unit();
    let medians = row.medians.map_or_else(String::new, |(before, after)| {
        format!(
            ": {} where it was {}",
            value(Some(after), unit),
            value(Some(before), unit)
        )
    });
    let interval = row.interval.map_or_else(String::new, |interval| {
        let (low, high) = (signed(interval.low, unit), signed(interval.high, unit));
        format!("; the shift lies from {low} to {high}")
    });
    Finding {
        figure: row
            .shift
            .map_or_else(|| "-".into(), |shift| signed(shift, unit)),
        text: format!("{}{medians}{interval}", row.figure.name()),
    }
}
