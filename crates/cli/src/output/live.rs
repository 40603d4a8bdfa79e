//! One line per period and CPU while a run goes on, on stderr.

use std::time::Duration;

use vmnoise_events::Share;
use vmnoise_explain::PeriodLine;

use crate::units::human;

/// The headings of the lines.
pub fn header() {
    eprintln!(
        "{:>9} {:>4} {:>7} {:>12} {:>12} {:>12}  largest shares",
        "time", "CPU", "gaps", "noise", "max gap", "outer steal"
    );
}

/// The lines of one period that ended `since_start` after the start, and what the
/// scheduler of a host below took of each CPU in it, at most.
pub fn period(since_start: Duration, lines: &[PeriodLine], outer_steal: &[(u32, Option<u64>)]) {
    for line in lines {
        let outer_ns = outer_steal.iter().find(|(cpu, _)| *cpu == line.cpu);
        eprintln!(
            "{:>7.1} s {:>4} {:>7} {:>12} {:>12} {:>12}  {}",
            since_start.as_secs_f64(),
            line.cpu,
            line.gaps,
            human(line.noise_ns),
            human(line.max_gap_ns),
            outer_ns
                .and_then(|(_, ns)| *ns)
                .map_or_else(|| "-".into(), human),
            largest(line),
        );
    }
}

/// The three shares that took most of the period.
fn largest(line: &PeriodLine) -> String {
    let known = line
        .shares
        .iter()
        .filter_map(|(share, ns)| Some((share, ns?)));
    let mut shares: Vec<(Share, u64)> = known.filter(|(_, ns)| *ns > 0).collect();
    shares.sort_by_key(|(share, ns)| (std::cmp::Reverse(*ns), *share));
    let words: Vec<String> = shares
        .iter()
        .take(3)
        .map(|(share, ns)| format!("{share} {}", human(*ns)))
        .collect();
    words.join(", ")
}
