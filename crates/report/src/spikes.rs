//! The longest moments of a run: the longest of each cell of time, and the longest of all. For each
//! moment that is left out, a longer or equal one stays in its cell.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use vmnoise_explain::Part;

use crate::grid::{Cell, Grid, room};
use crate::moment::Moment;

/// Number of longest moments that are kept independently of their cells, and whose scene is drawn.
pub const LONGEST: usize = 200;
/// Cells of one lane while a run is read.
const CELLS: usize = 4_096;
/// Cells of all lanes together: many more than a page shows, so that the limit is not visible.
const ALL_CELLS: usize = 1 << 17;
/// Width of a cell before it grows.
const FIRST_WIDTH_NS: u64 = 65_536;

/// One gap, exit or wake-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spike {
    /// Index of the lane that lost the time.
    pub lane: usize,
    /// Begin, CLOCK_MONOTONIC in nanoseconds.
    pub start_mono_ns: u64,
    /// Length in nanoseconds.
    pub dur_ns: u64,
    /// Parts of the moment, the largest first.
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

    /// Returns the end of the moment, CLOCK_MONOTONIC in nanoseconds.
    pub fn end_mono_ns(&self) -> u64 {
        self.start_mono_ns.saturating_add(self.dur_ns)
    }
}

/// Longest moment of a cell.
#[derive(Debug, Default)]
struct Peak(Option<Spike>);

impl Peak {
    /// Keeps the longer moment, and the first of equal ones.
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

/// Collects moments one by one.
#[derive(Debug, Default)]
pub(crate) struct Spikes {
    lanes: Vec<Grid<Peak>>,
    /// Length of each kept spike, and its index in `kept`; the shortest spike comes out first.
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

    /// Returns the longest of all, the longest first.
    pub(crate) fn longest(&self) -> Vec<Spike> {
        let mut longest = self.kept.clone();
        longest.sort_by_key(|spike| (Reverse(spike.dur_ns), spike.start_mono_ns, spike.lane));
        longest
    }

    /// Returns the longest moments of all and the peaks of at most `most` cells of each lane, in
    /// the order of lanes and begins. Returns also the width of each lane's cells.
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
            // For each moment that is left out, a longer or equal one stays in its cell.
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
