//! The same as the page as Markdown, for a repository.

use std::fmt::Write;

use super::{Measured, range_us, who_made, worst};
use crate::verdict::judge;

pub(super) fn text(all: &[Measured]) -> String {
    let mut text = String::new();
    for measured in all {
        // Writing to a string cannot fail.
        _ = section(&mut text, measured);
    }
    text
}

fn section(text: &mut String, measured: &Measured) -> std::fmt::Result {
    let scenario = &measured.scenario;
    writeln!(text, "## {}\n\n{}.\n", scenario.title, scenario.source)?;
    if !scenario.conclusion.is_empty() {
        writeln!(text, "| The paper concludes | here |\n|---|---|")?;
        for conclusion in &scenario.conclusion {
            let [of, by] = [&conclusion.of, &conclusion.by].map(|cell| measured.repetitions(cell));
            let (said, verdict) = (&conclusion.text, judge(conclusion, of, by).verdict);
            writeln!(text, "| {said} | {verdict} |")?;
        }
        writeln!(text)?;
    }
    writeln!(
        text,
        "| cell | samples | worst, us | median, us | in the paper | who made the worst |\n\
         |---|---|---|---|---|---|"
    )?;
    for cell in scenario.cells().iter().map(|cell| cell.name()) {
        let repetitions = measured.repetitions(&cell);
        let published = scenario.published.iter();
        let published = published.filter_map(|it| it.cells.get(&cell).map(ToString::to_string));
        let published = published.collect::<Vec<_>>().join(", ");
        let samples: u64 = repetitions.iter().map(|it| it.count()).sum();
        let [most, median] = [
            range_us(repetitions, |it| it.worst_ns),
            range_us(repetitions, |it| it.quantile_ns(0.5)),
        ];
        let who = match worst(repetitions) {
            Some(it) => who_made(it).replace('|', "\\|"),
            None => why_not(measured, &cell),
        };
        writeln!(
            text,
            "| {cell} | {samples} | {most} | {median} | {published} | {who} |"
        )?;
    }
    writeln!(text)
}

fn why_not(measured: &Measured, cell: &str) -> String {
    let scenario = &measured.scenario;
    let mut cells = scenario.cells().into_iter();
    let refusal = cells
        .find(|it| it.name() == cell)
        .and_then(|it| crate::emulation::refusal(&it, &scenario.measure));
    let failed = measured.cells.iter().find(|it| it.cell == cell);
    let failure = failed.and_then(|it| it.failure.as_ref());
    match (refusal, failure) {
        (Some(why), _) => format!("not run: {why}"),
        (None, Some(why)) => format!("failed: {}", why.lines().next().unwrap_or_default()),
        (None, None) => "not run".to_owned(),
    }
}
