//! The last lines of the trace: what led to a stop, and what `--trace` saves.

use std::collections::VecDeque;

use vmnoise_events::Workload;
use vmnoise_explain::{Noise, TraceLine};

use crate::run::at_stop::AtStop;
use crate::run::trace_line;

/// About as many as the default buffer of rtla holds for one CPU (1.4 MB).
const KEPT: usize = 32_768;

/// Which gap or wake-up: when it began or was due, CLOCK_MONOTONIC in nanoseconds, and on
/// which CPU.
pub type GapKey = (u64, u32);

/// The last lines, oldest first.
#[derive(Debug, Default)]
pub struct RecentTrace {
    workload: Option<Workload>,
    lines: VecDeque<TraceLine>,
    saved_up_to: Option<GapKey>,
    at_stop: Option<AtStop>,
}

impl RecentTrace {
    /// Of a run with this workload.
    pub fn of(workload: Workload) -> RecentTrace {
        RecentTrace {
            workload: Some(workload),
            ..RecentTrace::default()
        }
    }

    /// Takes the next line.
    pub fn push(&mut self, line: TraceLine) {
        if self.lines.len() == KEPT {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// What is saved ends with this gap, which hit a limit; with `None`, where the lines
    /// do.
    pub fn save_up_to(&mut self, gap: Option<GapKey>) {
        self.saved_up_to = gap;
    }

    /// What was kept of the instant at which a limit was hit.
    pub fn keep_at_stop(&mut self, at_stop: AtStop) {
        self.at_stop = Some(at_stop);
    }

    /// The same, if it was by this wake-up.
    pub fn at_stop(&self, wakeup: GapKey) -> Option<&AtStop> {
        self.at_stop.as_ref().filter(|kept| kept.wakeup == wakeup)
    }

    /// The noise that overlaps a gap, or a late wake-up, in the order of its ends.
    pub fn inside(&self, (start_mono_ns, cpu): GapKey, dur_ns: u64) -> Vec<&Noise> {
        let end_mono_ns = start_mono_ns.saturating_add(dur_ns);
        let noise = self.lines.iter().filter_map(|line| match line {
            TraceLine::Noise(noise) => Some(noise),
            TraceLine::Sample(_) | TraceLine::Context(_) => None,
        });
        let overlapping = noise.filter(|noise| {
            noise.cpu == cpu
                && noise.start_mono_ns < end_mono_ns
                && noise.end_mono_ns > start_mono_ns
        });
        overlapping.collect()
    }

    /// The lines in the format of the trace mode, up to the gap that hit a limit if one did.
    pub fn text(&self) -> String {
        let mut text = trace_line::header(self.workload.unwrap_or(Workload::Osnoise));
        for line in &self.lines {
            text += &trace_line::render(line);
            if self.saved_up_to.is_some_and(|gap| ends_with(gap, line)) {
                break;
            }
        }
        text
    }
}

/// Whether this is the line of that gap, or the last one of that wake-up.
fn ends_with(gap: GapKey, line: &TraceLine) -> bool {
    match line {
        TraceLine::Sample(sample) => (sample.start_mono_ns, sample.cpu) == gap,
        TraceLine::Context(context) => {
            context.name == "user-ret" && (context.expiry_mono_ns, context.cpu) == gap
        }
        TraceLine::Noise(_) => false,
    }
}
