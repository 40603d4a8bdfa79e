//! Report on a stop: the gap that hit the limit, the noise in this gap, and advice.

use vmnoise_events::RunFacts;
use vmnoise_explain::{Summary, TraceLine};

use super::{advice, tree};
use crate::run::{RecentTrace, trace_line};

/// Renders the report and an empty line; empty if no gap stopped the run.
pub fn report(facts: &RunFacts, summary: &Summary, trace: &RecentTrace) -> String {
    let Some(gap) = &summary.stopped_by else {
        return String::new();
    };
    let mut report = format!("Stopped by this gap:\n{}", tree::tree(gap));
    let inside = trace.inside((gap.start_mono_ns, gap.cpu), gap.dur_ns);
    if !inside.is_empty() {
        report += "What caused it:\n";
        for noise in &inside {
            report += &trace_line::render(&TraceLine::Noise((*noise).clone()));
        }
    }
    report += "What to change:\n";
    for sentence in advice::advice(gap, &inside, facts) {
        report += &format!(" - {sentence}\n");
    }
    report + "\n"
}
