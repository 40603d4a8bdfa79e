//! The last lines of the trace: what led to a stop, and what `--trace` saves.

use std::collections::VecDeque;
use std::io::Write;

use vmnoise_explain::{Noise, TraceLine, WorstGap};

use crate::output::trace_line;

/// About as many as the default buffer of rtla holds for one CPU (1.4 MB).
const KEPT: usize = 32_768;

/// The last lines, oldest first.
#[derive(Debug, Default)]
pub struct RecentTrace(VecDeque<TraceLine>);

impl RecentTrace {
    /// Takes the next line.
    pub fn push(&mut self, line: TraceLine) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(line);
    }

    /// The noise that overlaps a gap, in the order of its ends.
    pub fn inside(&self, gap: &WorstGap) -> Vec<&Noise> {
        let end_mono_ns = gap.start_mono_ns.saturating_add(gap.dur_ns);
        let noise = self.0.iter().filter_map(|line| match line {
            TraceLine::Noise(noise) => Some(noise),
            TraceLine::Sample(_) => None,
        });
        let overlapping = noise.filter(|noise| {
            noise.cpu == gap.cpu
                && noise.start_mono_ns < end_mono_ns
                && noise.end_mono_ns > gap.start_mono_ns
        });
        overlapping.collect()
    }

    /// Writes the lines in the format of the trace mode, up to the gap that stopped the
    /// run if one did.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn save(&self, stopped_by: Option<&WorstGap>, out: impl Write) -> std::io::Result<()> {
        let mut out = std::io::BufWriter::new(out);
        out.write_all(trace_line::HEADER.as_bytes())?;
        for line in &self.0 {
            out.write_all(trace_line::render(line).as_bytes())?;
            if stopped_by.is_some_and(|gap| is_sample_of(gap, line)) {
                break;
            }
        }
        out.flush()
    }
}

fn is_sample_of(gap: &WorstGap, line: &TraceLine) -> bool {
    match line {
        TraceLine::Sample(sample) => {
            (sample.cpu, sample.start_mono_ns) == (gap.cpu, gap.start_mono_ns)
        }
        TraceLine::Noise(_) => false,
    }
}
