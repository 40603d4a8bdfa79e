//! Figures of two groups of recordings.

use vmnoise_judge::compare::{GroupRow, GroupVerdict, Interval};

use super::Table;
use super::figures::{chance, figure, written};
use crate::beside::{GroupsBeside, signed};

/// Returns a row for each figure that at least one run has.
pub(super) fn two_groups(of: &GroupsBeside<'_>) -> Table {
    let rows = of.groups.rows.iter().filter(|row| row.is_any());
    let table = Table::of("After beside before", &rows.collect::<Vec<_>>(), |it| {
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
        "Medians of runs; by how much runs after the change lie above those before (Hodges and Lehmann), \
         with an exact interval of 95 % for each figure by itself; how likely that is by chance (exact \
         test of Mann and Whitney over runs), by itself and corrected for all figures that are tested \
         (Holm).",
    )
}

fn bound(row: &GroupRow, of: impl Fn(Interval) -> f64) -> (String, Option<f64>) {
    let unit = row.figure.unit();
    written(row.interval.map(of), |bound| signed(bound, unit))
}
