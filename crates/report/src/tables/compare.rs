//! Tables of a page that compares recordings.

use vmnoise_judge::compare::{ComparedFigure, ComparisonVerdict, FigureRow, RecordingKind};

use super::Table;
use super::figures::{chance, figure, written};
use super::two_groups::two_groups;
use crate::beside::{ComparePage, RecordingComparison, signed, words};

/// Returns tables of the compared figures, the conditions, and the recordings.
pub(crate) fn compare(page: &ComparePage<'_>) -> Vec<Table> {
    let mut tables: Vec<Table> = page.pairs.iter().map(|pair| figures(page, pair)).collect();
    match &page.groups {
        Some(groups) => tables.push(two_groups(groups)),
        None if page.pairs.is_empty() => tables.push(alone(page)),
        None => {}
    }
    tables.extend([conditions(page), runs(page)]);
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn figures(page: &ComparePage<'_>, pair: &RecordingComparison<'_>) -> Table {
    let (first, second) = (page.file(0), page.file(pair.second));
    let above = format!("{second} above {first}");
    let rows: Vec<&FigureRow> = pair.rows.iter().filter(|row| row.is_any()).collect();
    let table = Table::of(&format!("{second} compared with {first}"), &rows, |it| {
        it.words("figure", |row| row.figure.name())
            .ranked(first, |row| figure(row.first, row.figure.unit()))
            .ranked(second, |row| figure(row.second, row.figure.unit()))
            .ranked(&above, |row| {
                let unit = row.figure.unit();
                written(row.shift, |shift| signed(shift, unit))
            })
            .ranked("delta", |row| {
                written(row.delta, |delta| format!("{delta:+.2}"))
            })
            .ranked("p", |row| written(row.p, chance))
            .name("shown", |row| match row.verdict {
                ComparisonVerdict::Different => Some("different"),
                ComparisonVerdict::NotShown => Some("not shown"),
                ComparisonVerdict::Untested => None,
            })
    });
    let parts = match page.kind {
        RecordingKind::Gaps => "Shares and noise are parts of the runtime.",
        RecordingKind::Wakeups => {
            "Figures that begin with “by” are the average time that a culprit took from a wake-up."
        }
        RecordingKind::Exits => "Shares, noise and times are parts of the vCPUs’ time.",
    };
    table.noted(format!(
        "Windows are compared, not {}. The table has the shift (Hodges and Lehmann), the size of the \
         effect (Cliff’s delta, -1 to 1), and the probability of such a shift by chance (Mann and \
         Whitney, with Holm’s correction). {parts}",
        words(page.kind)
    ))
}

fn alone(page: &ComparePage<'_>) -> Table {
    let figures = page.runs.iter().flat_map(|run| {
        let found =
            |it: ComparedFigure| Some((run.measured.figure(&it).filter(|it| *it != 0.0)?, it));
        run.measured.figures().into_iter().filter_map(found)
    });
    Table::of("Figures", &figures.collect::<Vec<_>>(), |it| {
        it.words("figure", |(_, it)| it.name())
            .ranked(page.file(0), |(found, it)| figure(Some(*found), it.unit()))
    })
}

fn conditions(page: &ComparePage<'_>) -> Table {
    Table::of("Conditions", &page.judged, |it| {
        it.words("recording", |judged| {
            page.file(judged.run).to_owned().into()
        })
        .name("condition", |judged| Some(judged.condition))
        .ranked("value", |judged| figure(judged.value, judged.unit))
        .name("holds", |judged| {
            Some(match judged.holds {
                Some(true) => "yes: status 2",
                Some(false) => "no",
                None => "unknown: status 2",
            })
        })
    })
}

fn runs(page: &ComparePage<'_>) -> Table {
    Table::of("The recordings", &page.runs, |it| {
        it.name("recording", |run| Some(run.file))
            .name("kernel", |run| Some(&run.facts.host.kernel))
            .name("hypervisor", |run| {
                Some(run.facts.host.hypervisor.as_deref().unwrap_or("none"))
            })
            .name("started at", |run| Some(&run.facts.started_at))
            .time("runtime", |run| run.measured.runtime_ns)
            .count("windows", |run| run.measured.windows as u64)
            .count("lost events", |run| run.measured.lost_events)
            .truth("ended in order", |run| run.measured.complete)
    })
}
