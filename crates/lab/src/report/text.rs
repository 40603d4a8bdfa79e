//! Report as Markdown, which can be stored in a repository.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::banner::banners;
use super::measured::{Measured, judged, why_not};
use super::words::{beside, noise_percent, quantile_us, range_us, who_made, worst};
use crate::machine::BootedMachine;

pub(super) fn text(all: &[Measured]) -> String {
    let mut text = String::new();
    for banner in banners(all) {
        text += &format!("**{}** {}\n\n", banner.title, banner.text);
    }
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
            let (said, verdict) = (&conclusion.text, judged(measured, conclusion).verdict);
            writeln!(text, "| {said} | {verdict} |")?;
        }
        writeln!(text)?;
    }
    for machine in machines(measured) {
        writeln!(text, "Measured on {machine}.\n")?;
    }
    let has_noise = measured.has_noise();
    let [noise, line] = if has_noise {
        [" noise, % |", "---|"]
    } else {
        [""; 2]
    };
    writeln!(
        text,
        "| cell | on | samples | worst, us | median, us |{noise} in the paper | who made the worst |\n\
         |---|---|---|---|---|{line}---|---|"
    )?;
    for cell in scenario.cells().iter().map(|cell| cell.name()) {
        let repetitions = measured.repetitions(&cell);
        let published = scenario.published.iter();
        let published = published.filter_map(|it| {
            let figure = beside(it, &cell, repetitions)?;
            Some(format!("{} {figure} ({})", it.statistic, it.source))
        });
        let published = published.collect::<Vec<_>>().join(", ");
        let samples: u64 = repetitions.iter().map(|it| it.count()).sum();
        let most = range_us(repetitions.iter().map(|it| it.worst_ns));
        let median = quantile_us(repetitions, 0.5);
        let noise = has_noise.then(|| format!(" {} |", noise_percent(repetitions)));
        let noise = noise.unwrap_or_default();
        let who = match worst(repetitions) {
            Some(it) => who_made(it),
            None => why_not(measured, &cell),
        };
        let who = who.replace('|', "\\|");
        let accel = measured.accel(&cell).map(|it| format!("{it} "));
        let accel = accel.unwrap_or_default();
        writeln!(
            text,
            "| {cell} | {accel}| {samples} | {most} | {median} |{noise} {published} | {who} |"
        )?;
    }
    writeln!(text)
}

/// Returns descriptions of the real machines, each machine once.
fn machines(measured: &Measured) -> BTreeSet<String> {
    let machines = measured.cells.iter().filter_map(|it| it.machine.as_ref());
    machines.map(BootedMachine::words).collect()
}
