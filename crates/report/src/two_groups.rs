//! Describes two groups of recordings in sentences.

use vmnoise_judge::compare::{GroupRow, GroupVerdict, LEVEL};

use crate::beside::{GroupsBeside, signed, value};
use crate::findings::Finding;

/// Returns a sentence about whether the groups differ.
pub(crate) fn headline(of: &GroupsBeside<'_>) -> String {
    let different = different(of).count();
    match different {
        0 if of.groups.are_too_few() => {
            "There are too few runs to show an effect of the change.".into()
        }
        0 => "No difference between the runs before and after the change is shown.".into(),
        1 => "The runs after the change differ from those before in one figure.".into(),
        _ => format!("The runs after the change differ from those before in {different} figures."),
    }
}

/// Returns findings about the differences, and about facts that a reader needs to judge the
/// differences.
pub(crate) fn findings(of: &GroupsBeside<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = different(of).map(finding).collect();
    let groups = of.groups;
    if groups.are_too_few() {
        findings.push(Finding {
            figure: groups.needed.map_or_else(|| "-".into(), |runs| format!("{runs} runs")),
            text: format!(
                "in each group are needed: the smallest p of this number of runs is {:.4}, and a test of {} \
                 figures together needs {:.4} or less",
                groups.least_p,
                groups.tested,
                LEVEL / groups.tested as f64
            ),
        });
    }
    if of.is_one_after_the_other {
        findings.push(Finding {
            figure: "in turns".into(),
            text: "is the order of runs that shows the effect of the change alone: here, all runs before the \
                   change came first"
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
            ": {} instead of {}",
            value(Some(after), unit),
            value(Some(before), unit)
        )
    });
    let interval = row.interval.map_or_else(String::new, |interval| {
        let (low, high) = (signed(interval.low, unit), signed(interval.high, unit));
        format!("; the shift is between {low} and {high}")
    });
    Finding {
        figure: row
            .shift
            .map_or_else(|| "-".into(), |shift| signed(shift, unit)),
        text: format!("{}{medians}{interval}", row.figure.name()),
    }
}
