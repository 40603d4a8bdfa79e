//! Last lines of the trace: the events before a stop, and the content of a saved trace.

use std::collections::VecDeque;

use vmnoise_events::MeasuringCommand;
use vmnoise_explain::{TraceLine, TraceNoise};

use crate::at_stop::{AtStop, GapKey};
use crate::trace_line;

/// Maximum number of lines: about as many as rtla's default buffer holds for one CPU (1.4 MB).
const KEPT: usize = 32_768;

/// Last lines of the trace, oldest first.
#[derive(Debug, Default)]
pub struct RecentTrace {
    workload: Option<MeasuringCommand>,
    lines: VecDeque<TraceLine>,
    saved_up_to: Option<GapKey>,
    at_stop: Option<AtStop>,
}

impl RecentTrace {
    /// Creates an empty trace of a run with this workload.
    pub fn of(workload: MeasuringCommand) -> RecentTrace {
        RecentTrace {
            workload: Some(workload),
            ..RecentTrace::default()
        }
    }

    /// Appends a line and drops the oldest if there are too many.
    pub fn push(&mut self, line: TraceLine) {
        if self.lines.len() == KEPT {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// Ends the saved trace with this gap, which hit a limit. With `None`, the trace keeps all
    /// lines.
    pub fn save_up_to(&mut self, gap: Option<GapKey>) {
        self.saved_up_to = gap;
    }

    /// Stores the evidence of the instant at which a limit was hit.
    pub fn keep_at_stop(&mut self, at_stop: AtStop) {
        self.at_stop = Some(at_stop);
    }

    /// Returns the evidence of the stop, if this wake-up hit the limit.
    pub fn at_stop(&self, wakeup: GapKey) -> Option<&AtStop> {
        self.at_stop.as_ref().filter(|kept| kept.wakeup == wakeup)
    }

    /// Returns the noise that overlaps a gap or a late wake-up, ordered by end.
    pub fn inside(&self, (start_mono_ns, cpu): GapKey, dur_ns: u64) -> Vec<&TraceNoise> {
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

    /// Returns the lines in the format of the trace mode, up to the gap that hit a limit, if any.
    pub fn text(&self) -> String {
        let mut text = trace_line::header(self.workload.unwrap_or(MeasuringCommand::Osnoise));
        for line in &self.lines {
            text += &trace_line::render(line);
            if self.saved_up_to.is_some_and(|gap| ends_with(gap, line)) {
                break;
            }
        }
        text
    }
}

/// Returns whether `line` is the line of `gap`, or the last line of this wake-up.
fn ends_with(gap: GapKey, line: &TraceLine) -> bool {
    match line {
        TraceLine::Sample(sample) => (sample.start_mono_ns, sample.cpu) == gap,
        TraceLine::Context(context) => {
            context.name == "user-ret" && (context.expiry_mono_ns, context.cpu) == gap
        }
        TraceLine::Noise(_) => false,
    }
}
