//! Table of the figures of two groups of recordings.

use vmnoise_judge::compare::{GroupRow, GroupVerdict, ShiftInterval};

use super::Table;
use super::figures::{chance, figure, written};
use crate::beside::{GroupsBeside, signed};

/// Returns a row for each figure that is not 0 in every run.
pub(super) fn two_groups(of: &GroupsBeside<'_>) -> Table {
    let rows = of.groups.rows.iter().filter(|row| row.is_any());
    let table = Table::of("Before and after", &rows.collect::<Vec<_>>(), |it| {
        it.words("figure", |row| row.figure.name())
            .ranked("before", |row| {
                figure(row.medians.map(|(before, _)| before), row.figure.unit())
            })
            .ranked("after", |row| {
                figure(row.medians.map(|(_, after)| after), row.figure.unit())
            })
            .ranked("shift", |row| {
                written(row.shift, |shift| signed(shift, row.figure.unit()))
            })
            .ranked("at least", |row| bound(row, |interval| interval.low))
            .ranked("at most", |row| bound(row, |interval| interval.high))
            .ranked("p", |row| written(row.p, chance))
            .ranked("corrected", |row| written(row.corrected_p, chance))
            .name("shown", |row| match row.verdict {
                GroupVerdict::Different => Some("different"),
                GroupVerdict::NotShown => Some("not shown"),
                GroupVerdict::TooFewRuns => Some("too few runs"),
                GroupVerdict::Untested => None,
            })
    });
    table.noted(
        "The table has the medians of the runs, and the shift of the runs after the change (Hodges \
         and Lehmann), with an exact interval of 95 % for each figure alone. p is the probability of \
         such a shift by chance (exact test of Mann and Whitney over runs), alone and corrected for all \
         tested figures (Holm).",
    )
}

fn bound(row: &GroupRow, of: impl Fn(ShiftInterval) -> f64) -> (String, Option<f64>) {
    let unit = row.figure.unit();
    written(row.interval.map(of), |bound| signed(bound, unit))
}
