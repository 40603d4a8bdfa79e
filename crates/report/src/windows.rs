//! Collects the lost time of each CPU or vCPU by share, in windows of equal width.

use vmnoise_events::ShareMap;

use crate::grid::{Cell, Grid, room};
use crate::moment::Moment;

/// Largest number of windows for one CPU or vCPU.
const CELLS: usize = 512;
/// Largest number of windows over all CPUs or vCPUs. This is more than a page shows.
const ALL_CELLS: usize = 1 << 16;
/// Width of a window at first, in nanoseconds.
const FIRST_WIDTH_NS: u64 = 1_000_000;

/// Lost time in one window, by share.
#[derive(Debug, Clone, Default)]
pub(crate) struct Window {
    pub(crate) shares_ns: ShareMap<u64>,
}

impl Cell for Window {
    fn merge(&mut self, later: Window) {
        self.shares_ns += later.shares_ns;
    }
}

/// Collects lost time from [`Moment`]s.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    lanes: Vec<Grid<Window>>,
}

impl Windows {
    /// Adds a moment. If it covers several windows, each part is spread evenly over them, because
    /// the position of a part is unknown.
    pub(crate) fn see(&mut self, lane: usize, moment: &Moment<'_>) {
        while self.lanes.len() <= lane {
            let most = room(&mut self.lanes, CELLS, ALL_CELLS);
            self.lanes.push(Grid::new(FIRST_WIDTH_NS, most));
        }
        let grid = &mut self.lanes[lane];
        let start_ns = moment.start_mono_ns;
        let end_ns = start_ns.saturating_add(moment.dur_ns);
        // The grid now covers the whole moment, so the width does not change below.
        grid.at(start_ns);
        grid.at(end_ns.saturating_sub(1).max(start_ns));
        let width_ns = grid.width_ns();
        let mut from_ns = start_ns;
        while from_ns < end_ns {
            let until_ns = (from_ns / width_ns + 1)
                .saturating_mul(width_ns)
                .min(end_ns);
            let window = grid.at(from_ns);
            for part in moment.parts {
                // Returns the time of the part before `ns`. Differences of such times add up
                // exactly.
                let before = |ns: u64| {
                    let of_part = u128::from(part.ns) * u128::from(ns - start_ns);
                    (of_part / u128::from(moment.dur_ns)) as u64
                };
                let sum = &mut window.shares_ns[part.share];
                *sum = sum.saturating_add(before(until_ns) - before(from_ns));
            }
            from_ns = until_ns;
        }
    }

    /// Returns windows of the same width for all CPUs or vCPUs. All together have at most `most`
    /// windows, but each CPU or vCPU has at least one.
    pub(crate) fn into_even(mut self, most: usize) -> Even {
        let most = most / self.lanes.len().max(1);
        for lane in &mut self.lanes {
            lane.thin_to(most);
        }
        let widths = self.lanes.iter().map(Grid::width_ns);
        let width_ns = widths.max().unwrap_or(FIRST_WIDTH_NS);
        for lane in &mut self.lanes {
            lane.widen_to(width_ns);
        }
        let lanes: Vec<Row> = self.lanes.into_iter().map(Row::of).collect();
        let rows = || lanes.iter().filter(|row| !row.windows.is_empty());
        let first = rows().map(|row| row.first).min().unwrap_or(0);
        let end = rows().map(Row::end).max().unwrap_or(first);
        Even {
            width_ns,
            first,
            len: (end - first) as usize,
            lanes,
        }
    }
}

/// Windows of one CPU or vCPU.
#[derive(Debug)]
struct Row {
    /// Number of the first window, counted in widths from the zero of CLOCK_MONOTONIC.
    first: u64,
    windows: Vec<Window>,
}

impl Row {
    fn of(grid: Grid<Window>) -> Row {
        let (first, windows) = grid.into_cells();
        Row { first, windows }
    }

    /// Returns the number after that of the last window.
    fn end(&self) -> u64 {
        self.first + self.windows.len() as u64
    }
}

/// Windows of equal width that begin at the same times on all CPUs or vCPUs.
#[derive(Debug, Default)]
pub(crate) struct Even {
    pub(crate) width_ns: u64,
    /// Number of the first window. Window `n` begins when CLOCK_MONOTONIC is `n` times the width.
    first: u64,
    len: usize,
    lanes: Vec<Row>,
}

impl Even {
    /// Returns the number of windows from the earliest to the latest of all CPUs or vCPUs.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of CPUs or vCPUs.
    pub(crate) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Returns the begin of each window, CLOCK_MONOTONIC in nanoseconds.
    pub(crate) fn begins_mono_ns(&self) -> impl Iterator<Item = u64> + '_ {
        (self.first..)
            .take(self.len)
            .map(|number| number.saturating_mul(self.width_ns))
    }

    /// Returns the lost time of a CPU or vCPU in the window with this index; `None` if no time was
    /// lost.
    pub(crate) fn of(&self, lane: usize, place: usize) -> Option<&Window> {
        let row = self.lanes.get(lane)?;
        let before = row.first.checked_sub(self.first)?;
        row.windows.get(place.checked_sub(before as usize)?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vmnoise_events::Share;
    use vmnoise_explain::Part;

    use super::*;

    proptest! {
        #[test]
        fn windows_add_up_to_what_was_seen(
            moments in prop::collection::vec((0usize..3, 0u64..30_000_000_000, 1u64..80_000_000, 0u64..1_000), 1..200),
            most in 3usize..600,
        ) {
            let mut windows = Windows::default();
            let mut total_ns = [0u64; 2];
            for (lane, start_mono_ns, dur_ns, split) in &moments {
                let first_ns = dur_ns * split / 1_000;
                let part = |share, ns| Part { phase: None, share, source: None, host_cpu: None, ns, count: 0 };
                let parts = [part(Share::Steal, first_ns), part(Share::Irq, dur_ns - first_ns)];
                windows.see(*lane, &Moment { lane: 0, start_mono_ns: *start_mono_ns, dur_ns: *dur_ns, parts: &parts });
                total_ns[0] += first_ns;
                total_ns[1] += dur_ns - first_ns;
            }
            let even = windows.into_even(most);
            prop_assert!(even.lanes.iter().map(|row| row.windows.len()).sum::<usize>() <= most);
            let of = &even;
            let places = |lane| (0..of.len()).filter_map(move |place| of.of(lane, place));
            let sum = |share: Share| -> u64 {
                (0..even.lanes()).flat_map(places).map(|window| window.shares_ns[share]).sum()
            };
            prop_assert_eq!([sum(Share::Steal), sum(Share::Irq)], total_ns);
        }
    }
}
