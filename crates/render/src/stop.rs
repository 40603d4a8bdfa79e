//! Report on a stop: the gap that hit the limit, the noise in this gap, and advice.

use vmnoise_explain::TraceLine;
use vmnoise_views::{CpusResult, trace_line};

use super::{advice, tree};

/// Renders the report and an empty line; empty if no gap stopped the run.
pub fn report(result: &CpusResult<'_>) -> String {
    let Some(gap) = &result.summary.stopped_by else {
        return String::new();
    };
    let mut report = format!("Stopped by this gap:\n{}", tree::tree(gap));
    let key = (gap.start_mono_ns, gap.cpu);
    let inside = result.trace.inside(key, gap.dur_ns);
    if !inside.is_empty() {
        report += "What caused it:\n";
        for noise in &inside {
            report += &trace_line::render(&TraceLine::Noise((*noise).clone()));
        }
    }
    report += "What to change:\n";
    for sentence in advice::advice(gap, &inside, result.facts) {
        report += &format!(" - {sentence}\n");
    }
    report + "\n"
}
