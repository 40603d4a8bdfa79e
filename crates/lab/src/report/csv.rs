//! CSV file with one row for each repetition of each cell.

use std::fmt::Write;

use super::measured::Measured;
use super::words::who_made;
use crate::machine::BootedMachine;
use crate::scenario::{PaperFigure, Statistic};

const TITLES: &str = "scenario,cell,accel,repetition,samples,median_ns,p99_ns,worst_ns,published_worst_ns,\
                      under_50us,noise,kernel,machine,who_made_the_worst";

pub(super) fn text(all: &[Measured]) -> String {
    let mut text = format!("{TITLES}\n");
    for measured in all {
        let title = quoted(&measured.scenario.title);
        for ended in &measured.cells {
            let published = measured.scenario.published.iter();
            let mut worst = published.filter(|it| it.statistic == Statistic::Worst);
            let published = worst.find_map(|it| it.cells.get(&ended.cell));
            let published = match published {
                Some(PaperFigure::Length(length)) => length.ns().to_string(),
                Some(PaperFigure::Percent(_)) | None => String::new(),
            };
            for (at, it) in (1..).zip(&ended.repetitions) {
                let (cell, accel) = (&ended.cell, ended.accel);
                // An empty field stands for an unknown value.
                let [median, p99] = [0.5, 0.99].map(|part| {
                    let ns = it.quantile_ns(part);
                    ns.map_or(String::new(), |ns| ns.to_string())
                });
                let (count, worst, short) = (it.count(), it.worst_ns, it.part_within(50_000));
                let machine = ended.machine.as_ref().map(BootedMachine::words);
                let machine = quoted(&machine.unwrap_or_default());
                let noise = it.statistic(Statistic::Noise);
                let noise = noise.map_or(String::new(), |part| format!("{part:.9}"));
                let (kernel, who) = (quoted(&it.kernel), quoted(&who_made(it)));
                // Writing to a string cannot fail.
                _ = writeln!(
                    text,
                    "{title},{cell},{accel},{at},{count},{median},{p99},{worst},{published},{short:.6},{noise},{kernel},{machine},{who}"
                );
            }
        }
    }
    text
}

/// Quotes a field (RFC 4180). No field begins like a spreadsheet formula, because titles, releases
/// and share names do not.
fn quoted(words: &str) -> String {
    format!("\"{}\"", words.replace('"', "\"\""))
}
