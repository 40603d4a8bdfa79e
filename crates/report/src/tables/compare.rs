//! Recordings beside each other.

use vmnoise_explain::compare::{Figure, Unit, Verdict};

use super::{Field, NUMBER, Table, WORD, number, time, words};
use crate::compare::{Beside, ComparePage, signed, value};

/// Figures of each pair, conditions, and the recordings themselves.
pub(crate) fn compare(page: &ComparePage<'_>) -> Vec<Table> {
    let mut tables: Vec<Table> = page.pairs.iter().map(|pair| figures(page, pair)).collect();
    if page.pairs.is_empty() {
        tables.push(alone(page));
    }
    tables.extend([conditions(page), runs(page)]);
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn figures(page: &ComparePage<'_>, pair: &Beside<'_>) -> Table {
    let (first, second) = (page.file(0), page.file(pair.second));
    let above = format!("{second} above {first}");
    let mut table = Table::new(
        &format!("{second} beside {first}"),
        &[
            ("figure", WORD),
            (first, NUMBER),
            (second, NUMBER),
            (&above, NUMBER),
            ("delta", NUMBER),
            ("p", NUMBER),
            ("shown", WORD),
        ],
    );
    table.note = "Windows are compared, not gaps: by how much they lie higher (Hodges and Lehmann), how \
                  surely (Cliff’s delta, -1 to 1), and how likely that is by chance (Mann and Whitney, \
                  with Holm’s correction). Shares and noise are parts of the runtime."
        .into();
    for row in pair.rows.iter().filter(|row| row.is_any()) {
        let unit = row.figure.unit();
        table.rows.push(vec![
            words(row.figure.name()),
            figure(row.first, unit),
            figure(row.second, unit),
            Field {
                text: row
                    .shift
                    .map_or_else(|| "-".into(), |shift| signed(shift, unit)),
                rank: row.shift,
                is_number: true,
            },
            Field {
                text: row
                    .delta
                    .map_or_else(|| "-".into(), |delta| format!("{delta:+.2}")),
                rank: row.delta,
                is_number: true,
            },
            Field {
                text: row.p.map_or_else(|| "-".into(), chance),
                rank: row.p,
                is_number: true,
            },
            words(match row.verdict {
                Verdict::Different => "different",
                Verdict::NotShown => "not shown",
                Verdict::Untested => "-",
            }),
        ]);
    }
    table
}

fn alone(page: &ComparePage<'_>) -> Table {
    let mut table = Table::new("Its figures", &[("figure", WORD), (page.file(0), NUMBER)]);
    for run in &page.runs {
        let told = Figure::all()
            .filter_map(|it| Some((it, it.of(&run.sample.whole).filter(|it| *it != 0.0)?)));
        table
            .rows
            .extend(told.map(|(it, found)| vec![words(it.name()), figure(Some(found), it.unit())]));
    }
    table
}

fn conditions(page: &ComparePage<'_>) -> Table {
    let columns = [
        ("recording", WORD),
        ("condition", WORD),
        ("it is", NUMBER),
        ("holds", WORD),
    ];
    let mut table = Table::new("Conditions", &columns);
    for judged in &page.judged {
        table.rows.push(vec![
            words(page.file(judged.run)),
            words(judged.condition),
            figure(judged.value, judged.unit),
            words(match judged.holds {
                Some(true) => "yes: status 2",
                Some(false) => "no",
                None => "unknown: status 2",
            }),
        ]);
    }
    table
}

fn runs(page: &ComparePage<'_>) -> Table {
    let mut table = Table::new(
        "The recordings",
        &[
            ("recording", WORD),
            ("kernel", WORD),
            ("a guest of", WORD),
            ("started at", WORD),
            ("runtime", NUMBER),
            ("windows", NUMBER),
            ("lost events", NUMBER),
            ("ended in order", WORD),
        ],
    );
    for run in &page.runs {
        table.rows.push(vec![
            words(run.file),
            words(&*run.facts.host.kernel),
            words(run.facts.host.hypervisor.as_deref().unwrap_or("nobody")),
            words(&*run.facts.started_at),
            time(run.sample.whole.runtime_ns),
            number(run.sample.windows.len() as u64),
            number(run.sample.lost_events),
            words(if run.sample.complete { "yes" } else { "no" }),
        ]);
    }
    table
}

fn figure(found: Option<f64>, unit: Unit) -> Field {
    Field {
        text: value(found, unit),
        rank: found,
        is_number: true,
    }
}

fn chance(p: f64) -> String {
    match p {
        0.000_1.. => format!("{p:.4}"),
        _ => "<0.0001".into(),
    }
}
