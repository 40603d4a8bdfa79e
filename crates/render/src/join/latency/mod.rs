//! Latencies of a guest's tasks, joined with the recording of its host.

pub mod document;
mod sides;
mod trees;

use vmnoise_events::human;
use vmnoise_explain::{JoinedLatencies, LatencyTotals};

use super::{JoinResult, called, caveats, culprits, pairs, part_of};
use crate::timerlat::budget;

/// Renders the whole result; the text ends with a newline.
pub fn render(joined: &JoinResult<'_>, latencies: &JoinedLatencies) -> String {
    let run = joined.run;
    let mut out = joined.headline("A guest's wake-ups, and what its host did in them");
    out += &pairs::render(&run.pairing, pairs::OF_TASKS);
    out += &coverage(&latencies.joined, run.above_ns);
    let wakeups = run.summary.wakeups.iter().flat_map(|wakeups| &wakeups.cpus);
    for (cpu, sides) in wakeups.zip(&latencies.cpus) {
        let called = called(cpu.cpu, &run.pairs);
        out += &format!(
            "\nHow late the task on {called} was\n{}",
            sides::figures(cpu)
        );
        out += &format!("\nWhere the latency came from\n{}", sides::render(sides));
        out += &budget::flaws(cpu);
    }
    out += &culprits::render(&latencies.culprits, run.above_ns, culprits::OF_TASKS);
    out += &trees::render(joined, &latencies.trees);
    out + &caveats::render(joined)
}

/// Renders how many wake-ups the host's recording covers.
fn coverage(joined: &LatencyTotals, above_ns: u64) -> String {
    let coverage = format!(
        " wake-ups that the host recorded: {}\n of these with an exit in their latency: {}; of {} and more: {}\n \
         exits in latencies: {}; unexplained of all {}: {}\n",
        part_of(joined.witnessed, joined.wakeups),
        part_of(joined.joined, joined.witnessed),
        human(above_ns),
        part_of(joined.joined_above, joined.witnessed_above),
        joined.exits,
        human(joined.latency_ns),
        human(joined.unexplained_ns),
    );
    coverage + &pairs::unsure_of(&joined.unsure, ("phase", "phases"))
}
