//! Collects gaps, wake-ups or exits of a run while they are explained. Keeps only what the page
//! shows, so memory does not grow with the run.

use std::collections::HashMap;

use hdrhistogram::Histogram;
use vmnoise_events::{Name, Share, SourceId};
use vmnoise_explain::Part;

use crate::moment::Moment;
use crate::spikes::{Spike, Spikes};
use crate::windows::{Even, Windows};

/// Largest number of spikes over all CPUs or vCPUs, in addition to the longest ones.
const SPIKES: usize = 4_000;
/// Largest number of CPUs or vCPUs on a page. A recording may have any number of vCPUs.
const LANES: usize = 1_024;
/// Largest number of windows over all CPUs or vCPUs.
const WINDOWS: usize = 16_384;

/// Time that one source took from one CPU or vCPU.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    moments: u64,
    total_ns: u64,
    max_ns: u64,
}

/// Collects [`Moment`]s one by one.
#[derive(Debug, Default)]
pub struct Gathering {
    /// Earliest and latest instant in the stream, CLOCK_MONOTONIC in nanoseconds; `None` before the
    /// first instant.
    span_mono_ns: Option<(u64, u64)>,
    /// Numbers of the CPUs or vCPUs, in the order in which they first appeared.
    lanes: Vec<u32>,
    /// Index in `lanes` of each CPU or vCPU, by its number.
    places: HashMap<u32, usize>,
    /// Number of moments of CPUs or vCPUs above the limit, which are left out.
    left_out: u64,
    spikes: Spikes,
    windows: Windows,
    lengths: Vec<Histogram<u64>>,
    sums: HashMap<(usize, Share, Option<SourceId>), Sum>,
}

impl Gathering {
    /// Adds an instant of the run, CLOCK_MONOTONIC in nanoseconds.
    pub fn time(&mut self, mono_ns: u64) {
        let (first_ns, last_ns) = self.span_mono_ns.unwrap_or((mono_ns, mono_ns));
        self.span_mono_ns = Some((first_ns.min(mono_ns), last_ns.max(mono_ns)));
    }

    /// Adds the next moment. Moments of the same CPU or vCPU must come in the order of their
    /// begins.
    pub fn see(&mut self, moment: &Moment<'_>) {
        let Some(lane) = self.lane(moment.lane) else {
            self.left_out += 1;
            return;
        };
        self.time(moment.start_mono_ns);
        self.time(moment.start_mono_ns.saturating_add(moment.dur_ns));
        self.spikes.see(lane, moment);
        self.windows.see(lane, moment);
        self.lengths[lane].saturating_record(moment.dur_ns);
        for part in moment.parts {
            let sum = self
                .sums
                .entry((lane, part.share, part.source))
                .or_default();
            sum.moments += 1;
            sum.total_ns = sum.total_ns.saturating_add(part.ns);
            sum.max_ns = sum.max_ns.max(part.ns);
        }
    }

    /// Returns the longest moments of the run, the longest first.
    pub fn longest(&self) -> Vec<Spike> {
        self.spikes.longest()
    }

    /// Returns the number of a CPU or vCPU by its index.
    pub fn lane_number(&self, place: usize) -> u32 {
        self.lanes[place]
    }

    /// Ends the collection. `name` must return the name of a source.
    pub fn resolve(self, mut name: impl FnMut(SourceId) -> String) -> ResolvedMoments {
        let lanes = self.lanes.len().max(1);
        let (spikes, widths_ns) = self.spikes.into_peaks(SPIKES / lanes);
        let mut names: HashMap<SourceId, Name> = HashMap::new();
        let takers = self.sums.into_iter().map(|((lane, share, source), sum)| {
            let named = source.map(|id| names.entry(id).or_insert_with(|| name(id).into()).clone());
            Taker {
                lane,
                share,
                name: named,
                moments: sum.moments,
                total_ns: sum.total_ns,
                max_ns: Some(sum.max_ns),
            }
        });
        let mut takers: Vec<Taker> = takers.collect();
        takers.sort_by(|a, b| {
            let rank = |it: &Taker| (std::cmp::Reverse(it.total_ns), it.lane, it.share);
            rank(a).cmp(&rank(b)).then_with(|| a.name.cmp(&b.name))
        });
        ResolvedMoments {
            span_mono_ns: self.span_mono_ns.unwrap_or((0, 0)),
            lanes: self.lanes,
            stretch_ns: widths_ns.into_iter().max().unwrap_or(0),
            spikes,
            windows: self.windows.into_even(WINDOWS),
            lengths: self.lengths,
            takers,
            names,
            left_out: self.left_out,
        }
    }

    fn lane(&mut self, number: u32) -> Option<usize> {
        if let Some(place) = self.places.get(&number) {
            return Some(*place);
        }
        let place = self.lanes.len();
        if place == LANES {
            return None;
        }
        self.lanes.push(number);
        self.places.insert(number, place);
        // Two significant digits of a length are more than a chart can show.
        let lengths = Histogram::new_with_bounds(1, 1 << 42, 2);
        self.lengths
            .push(lengths.expect("these bounds and digits are allowed"));
        Some(place)
    }
}

/// Time that one source took from one CPU or vCPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Taker {
    /// Index of the CPU or vCPU.
    pub(crate) lane: usize,
    pub(crate) share: Share,
    /// Name of the source; `None` if unknown.
    pub(crate) name: Option<Name>,
    /// Number of gaps, wake-ups or exits in which the source took time.
    pub(crate) moments: u64,
    pub(crate) total_ns: u64,
    /// Longest time in one gap, wake-up or exit, in nanoseconds; `None` if it was not recorded.
    pub(crate) max_ns: Option<u64>,
}

/// Gaps, wake-ups or exits of one run, as the page shows them.
#[derive(Debug)]
pub struct ResolvedMoments {
    /// Earliest and latest instant of the run, CLOCK_MONOTONIC in nanoseconds.
    pub(crate) span_mono_ns: (u64, u64),
    pub(crate) lanes: Vec<u32>,
    /// Length in nanoseconds of the pieces into which the run is cut. The spikes contain the
    /// longest moment of each piece.
    pub(crate) stretch_ns: u64,
    pub(crate) spikes: Vec<Spike>,
    pub(crate) windows: Even,
    pub(crate) lengths: Vec<Histogram<u64>>,
    /// Sources of lost time, the largest sum first.
    pub(crate) takers: Vec<Taker>,
    names: HashMap<SourceId, Name>,
    left_out: u64,
}

impl ResolvedMoments {
    /// Returns a sentence about the data that the page leaves out; `None` if the page is complete.
    pub fn left_out(&self) -> Option<String> {
        let count = self.left_out;
        (count > 0).then(|| {
            format!("Charts show the first {LANES} CPUs or vCPUs, and leave out {count} moments of others.")
        })
    }

    /// Returns the numbers of the CPUs or vCPUs, by index.
    pub fn lanes(&self) -> &[u32] {
        &self.lanes
    }

    /// Returns the name of the source of a part; `None` if unknown.
    pub(crate) fn name(&self, part: &Part) -> Option<&str> {
        let name = self.names.get(&part.source?)?;
        Some(name)
    }

    /// Returns the number of gaps, wake-ups or exits.
    pub(crate) fn count(&self) -> u64 {
        self.lengths.iter().map(Histogram::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_without_end_find_no_room_and_are_counted() {
        let mut gathering = Gathering::default();
        for lane in 0..2_000 {
            gathering.see(&Moment {
                lane,
                start_mono_ns: u64::from(lane) << 32,
                dur_ns: 5,
                parts: &[],
            });
        }
        let resolved = gathering.resolve(|_| String::new());
        assert_eq!(
            (resolved.lanes().len(), resolved.count()),
            (LANES, LANES as u64)
        );
        let reported = resolved.left_out().unwrap_or_default();
        assert!(reported.contains(" 976 moments of others"), "{reported}");
    }
}
