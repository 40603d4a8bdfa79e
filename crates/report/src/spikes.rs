//! Collects the longest gaps, wake-ups or exits of a run: the longest in each cell of time, and the
//! longest of the whole run. A moment is left out only if its cell keeps a moment that is at least
//! as long.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use vmnoise_explain::Part;

use crate::grid::{Cell, Grid, room};
use crate::moment::Moment;

/// Number of longest moments of the whole run that are kept. Each of these moments gets a scene.
pub const LONGEST: usize = 200;
/// Largest number of cells for one CPU or vCPU while a run is read.
const CELLS: usize = 4_096;
/// Largest number of cells over all CPUs or vCPUs. This is more than a page can show, so the limit
/// is not visible.
const ALL_CELLS: usize = 1 << 17;
/// Width of a cell at first, in nanoseconds.
const FIRST_WIDTH_NS: u64 = 65_536;

/// One of the longest gaps, exits or wake-ups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spike {
    /// Index of the CPU or vCPU that lost the time.
    pub lane: usize,
    /// Begin of the gap, exit or wake-up, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// Length of the gap, exit or wake-up, in nanoseconds.
    pub dur_ns: u64,
    /// Parts of the length, the largest first.
    pub parts: Vec<Part>,
}

impl Spike {
    fn new(lane: usize, moment: &Moment<'_>) -> Spike {
        Spike {
            lane,
            start_mono_ns: moment.start_mono_ns,
            dur_ns: moment.dur_ns,
            parts: moment.parts.to_vec(),
        }
    }

    /// Returns the end of the gap, exit or wake-up, CLOCK_MONOTONIC in nanoseconds.
    pub fn end_mono_ns(&self) -> u64 {
        self.start_mono_ns.saturating_add(self.dur_ns)
    }
}

/// Longest moment that begins in a cell of time.
#[derive(Debug, Default)]
struct Peak(Option<Spike>);

impl Peak {
    /// Keeps the longer of two moments, and the first of equally long ones.
    fn see(&mut self, dur_ns: u64, spike: impl FnOnce() -> Spike) {
        if self.0.as_ref().is_none_or(|peak| dur_ns > peak.dur_ns) {
            self.0 = Some(spike());
        }
    }
}

impl Cell for Peak {
    fn merge(&mut self, later: Peak) {
        if let Some(spike) = later.0 {
            self.see(spike.dur_ns, || spike);
        }
    }
}

/// Collects the longest [`Moment`]s of a run.
#[derive(Debug, Default)]
pub(crate) struct Spikes {
    lanes: Vec<Grid<Peak>>,
    /// Length of each kept spike in nanoseconds, and the spike's index in `kept`. The shortest
    /// spike is at the top.
    longest: BinaryHeap<Reverse<(u64, usize)>>,
    kept: Vec<Spike>,
}

impl Spikes {
    pub(crate) fn see(&mut self, lane: usize, moment: &Moment<'_>) {
        while self.lanes.len() <= lane {
            let most = room(&mut self.lanes, CELLS, ALL_CELLS);
            self.lanes.push(Grid::new(FIRST_WIDTH_NS, most));
        }
        let spike = || Spike::new(lane, moment);
        let cell = self.lanes[lane].at(moment.start_mono_ns);
        cell.see(moment.dur_ns, spike);
        let place = match self.longest.peek() {
            _ if self.kept.len() < LONGEST => {
                self.kept.push(spike());
                self.kept.len() - 1
            }
            Some(Reverse((shortest_ns, place))) if moment.dur_ns > *shortest_ns => {
                let place = *place;
                self.longest.pop();
                self.kept[place] = spike();
                place
            }
            _ => return,
        };
        self.longest.push(Reverse((moment.dur_ns, place)));
    }

    /// Returns the longest moments of the whole run, the longest first.
    pub(crate) fn longest(&self) -> Vec<Spike> {
        let mut longest = self.kept.clone();
        longest.sort_by_key(|spike| (Reverse(spike.dur_ns), spike.start_mono_ns, spike.lane));
        longest
    }

    /// Returns spikes and widths. The spikes are the longest moments of the run, and the longest
    /// moment of each cell, with at most `most` cells for each CPU or vCPU. They are sorted by CPU
    /// or vCPU and begin. The widths, in nanoseconds, are those of the cells of each CPU or vCPU.
    pub(crate) fn into_peaks(mut self, most: usize) -> (Vec<Spike>, Vec<u64>) {
        let mut widths_ns = Vec::new();
        let mut spikes = std::mem::take(&mut self.kept);
        for mut lane in self.lanes {
            lane.thin_to(most);
            widths_ns.push(lane.width_ns());
            let (_, peaks) = lane.into_cells();
            spikes.extend(peaks.into_iter().filter_map(|peak| peak.0));
        }
        spikes.sort_by_key(|spike| (spike.lane, spike.start_mono_ns, Reverse(spike.dur_ns)));
        spikes.dedup_by_key(|spike| (spike.lane, spike.start_mono_ns, spike.dur_ns));
        (spikes, widths_ns)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_maximum_is_lost(
            moments in prop::collection::vec((0usize..3, 0u64..10_000_000_000, 1u64..5_000_000), 1..2_000),
            most in 2usize..100,
        ) {
            let mut spikes = Spikes::default();
            for (lane, start_mono_ns, dur_ns) in &moments {
                let moment = Moment { lane: 0, start_mono_ns: *start_mono_ns, dur_ns: *dur_ns, parts: &[] };
                spikes.see(*lane, &moment);
            }
            let longest = spikes.longest();
            let (peaks, widths_ns) = spikes.into_peaks(most);
            prop_assert!(peaks.len() <= 3 * most + LONGEST);
            for spike in &peaks {
                let it = (spike.lane, spike.start_mono_ns, spike.dur_ns);
                prop_assert!(moments.contains(&it), "{it:?} was never seen");
            }
            // A moment is left out only if its cell keeps a moment that is at least as long.
            for (lane, start_ns, dur_ns) in &moments {
                let cell = start_ns / widths_ns[*lane];
                let beside = peaks.iter().filter(|spike| spike.lane == *lane && spike.start_mono_ns / widths_ns[*lane] == cell);
                prop_assert!(beside.max_by_key(|spike| spike.dur_ns).is_some_and(|peak| peak.dur_ns >= *dur_ns));
            }
            let mut lengths: Vec<u64> = moments.iter().map(|(_, _, dur_ns)| *dur_ns).collect();
            lengths.sort_unstable_by_key(|ns| Reverse(*ns));
            lengths.truncate(LONGEST);
            let kept: Vec<u64> = longest.iter().map(|spike| spike.dur_ns).collect();
            prop_assert_eq!(kept, lengths);
            prop_assert!(longest.iter().all(|spike| peaks.contains(spike)
                || peaks.iter().any(|peak| (peak.lane, peak.start_mono_ns, peak.dur_ns) == (spike.lane, spike.start_mono_ns, spike.dur_ns))));
        }
    }
}
