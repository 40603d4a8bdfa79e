//! Finds candidates for a period: distances between gaps that occur more often than slightly
//! shorter and slightly longer distances.
//!
//! The comparison with neighbouring distances ignores bursts, because a burst raises the numbers of
//! all short distances alike. A comparison with a Poisson process of the same rate would not ignore
//! bursts.

use super::{LONGEST_NS, SHORTEST_NS};

/// Number of following gaps with which each gap is compared.
const NEIGHBOURS: usize = 64;
/// log2 of the number of cells per octave of distances.
const FINE_BITS: u32 = 6;
/// log2 of the number of cells per octave, for periods that jitter by some percent of their length.
const COARSE_BITS: u32 = 4;
/// Excess over the neighbouring cells that makes a candidate, in standard deviations of a Poisson
/// count. A low limit costs only time.
const LEAST_SIGMA: f64 = 4.5;
/// Minimum number of distances in a candidate's cell.
const FEWEST: f64 = 8.0;
/// Number of cells that are skipped between a cell and the cells with which it is compared.
const APART: usize = 3;
/// Number of cells on each side with which a cell is compared.
const COMPARED: usize = 6;
/// Maximum number of candidates that are refined.
const MOST: usize = 48;

/// Number of distances in one cell, and their sum in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    count: f64,
    sum_ns: f64,
}

/// Distances by length, on a scale with an equal number of cells per octave.
struct Scale {
    bits: u32,
    cells: Vec<Cell>,
}

impl Scale {
    fn new(bits: u32) -> Self {
        let mut scale = Self {
            bits,
            cells: Vec::new(),
        };
        let longest = scale.index(2 * LONGEST_NS as u64);
        scale.cells.resize(longest + 1, Cell::default());
        scale
    }

    fn index(&self, distance_ns: u64) -> usize {
        let octave = distance_ns.max(1 << self.bits).ilog2();
        let within = (distance_ns >> (octave - self.bits)) as usize & ((1 << self.bits) - 1);
        ((octave - self.bits) as usize) << self.bits | within
    }

    /// Returns the width of the range of distances in a cell, relative to the first cells.
    fn width(&self, index: usize) -> f64 {
        ((index >> self.bits) as f64).exp2()
    }

    fn add(&mut self, distance_ns: f64) {
        let index = self.index(distance_ns as u64);
        if let Some(cell) = self.cells.get_mut(index) {
            cell.count += 1.0;
            cell.sum_ns += distance_ns;
        }
    }

    /// Returns the excess of two neighbouring cells over their surroundings, in standard
    /// deviations. Two cells are taken together because a peak may lie on their border.
    fn sigma(&self, index: usize) -> f64 {
        let count = self.cells[index].count + self.cells[index + 1].count;
        if count < FEWEST {
            return 0.0;
        }
        let below = index - APART - COMPARED..index - APART;
        let above = index + 2 + APART..index + 2 + APART + COMPARED;
        let density = |cells: std::ops::Range<usize>| {
            let width: f64 = cells.clone().map(|i| self.width(i)).sum();
            self.cells[cells].iter().map(|cell| cell.count).sum::<f64>() / width
        };
        let density = density(below).max(density(above));
        let expected = density * (self.width(index) + self.width(index + 1));
        (count - expected) / (expected + 1.0).sqrt()
    }

    fn candidates(&self) -> Vec<f64> {
        let margin = APART + COMPARED + 2;
        let range = self.index(SHORTEST_NS as u64).max(margin)..self.cells.len() - margin;
        let sigmas: Vec<f64> = range.clone().map(|index| self.sigma(index)).collect();
        let peak = |i: &usize| {
            let around = &sigmas[i.saturating_sub(2)..(i + 3).min(sigmas.len())];
            sigmas[*i] >= LEAST_SIGMA && around.iter().all(|other| *other <= sigmas[*i])
        };
        (0..sigmas.len())
            .filter(peak)
            .map(|i| {
                let (a, b) = (self.cells[range.start + i], self.cells[range.start + i + 1]);
                (a.sum_ns + b.sum_ns) / (a.count + b.count)
            })
            .collect()
    }
}

/// Returns candidate periods in nanoseconds, ascending. `starts` are sorted.
pub(super) fn candidates(starts: &[f64]) -> Vec<f64> {
    let (mut fine, mut coarse) = (Scale::new(FINE_BITS), Scale::new(COARSE_BITS));
    for (i, start_ns) in starts.iter().enumerate() {
        for later_ns in starts[i + 1..].iter().take(NEIGHBOURS) {
            fine.add(later_ns - start_ns);
            coarse.add(later_ns - start_ns);
        }
    }
    let mut found = fine.candidates();
    found.extend(coarse.candidates());
    found.sort_by(f64::total_cmp);
    found.truncate(MOST);
    found
}
