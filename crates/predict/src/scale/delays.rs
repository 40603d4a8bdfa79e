//! Distribution of a host's delay over all moments at which a step of the program may begin.

use super::grid::{cell_of, edge_ns};
use super::sweep::Piece;

/// Width of the first range of gap ages, in nanoseconds. Moments in younger gaps share one layer.
const YOUNGEST_NS: u64 = 128;

/// Counts of constant delays in one cell of the grid, and of the ends of falling delays in this
/// cell. The sum of the counts of all cells below an edge is exact at that edge.
#[derive(Debug, Clone, Copy, Default)]
struct Ends {
    /// Number of moments with a constant delay, in nanoseconds; `constant_moment` is the sum of
    /// their delays.
    constant_ns: u128,
    constant_moment: u128,
    /// Falling delays whose lower end is in this cell, minus falling delays whose upper end is:
    /// `begun` is their number. `sum_ns` and `squares` are the sums of these ends and of their
    /// squares.
    begun: i128,
    sum_ns: i128,
    squares: f64,
}

/// Counter of the pieces of a sweep.
#[derive(Debug, Default)]
pub(super) struct Tally {
    layers: Vec<Vec<Ends>>,
}

/// Distribution of delays. For each cell of the grid, `moments_ns` is the number of moments, one
/// per nanosecond. `weighted_ns` is the sum of the delays at these moments.
#[derive(Debug, Clone, Default)]
pub(super) struct Layer {
    pub(super) moments_ns: Vec<f64>,
    pub(super) weighted_ns: Vec<f64>,
}

/// Distributions of the delay at moments outside of gaps, and at moments in a gap. The first layer
/// is for moments outside of gaps. Each further layer is for a range of gap ages, which is twice as
/// wide as the previous range.
#[derive(Debug, Clone, Default)]
pub(super) struct Delays {
    pub(super) layers: Vec<Layer>,
}

/// Returns the index of the layer for moments in a gap of this age.
fn layer_of(age_ns: u64) -> usize {
    1 + (age_ns / YOUNGEST_NS * 2).max(1).ilog2() as usize
}

/// Returns the smallest age of the next layer, in nanoseconds.
pub(super) fn next_age_ns(layer: usize) -> u64 {
    YOUNGEST_NS << (layer - 1)
}

impl Tally {
    /// Counts the moments of this piece.
    pub(super) fn add(&mut self, piece: Piece) {
        let Some(since_ns) = piece.in_gap_since_ns else {
            self.add_to(0, piece);
            return;
        };
        let mut rest = Some(piece);
        while let Some(piece) = rest {
            let layer = layer_of(piece.begin_ns - since_ns);
            let (within, beyond) = piece.cut(since_ns + next_age_ns(layer));
            if let Some(within) = within {
                self.add_to(layer, within);
            }
            rest = beyond;
        }
    }

    fn add_to(&mut self, layer: usize, piece: Piece) {
        if piece.falls {
            let (highest_ns, length_ns) = (piece.delay_ns, piece.length_ns);
            for (ns, sign) in [(highest_ns - length_ns, 1), (highest_ns, -1)] {
                let ends = self.ends(layer, ns);
                ends.begun += sign;
                ends.sum_ns += sign * i128::from(ns);
                ends.squares += sign as f64 * (ns as f64).powi(2);
            }
        } else {
            let ends = self.ends(layer, piece.delay_ns);
            ends.constant_ns += u128::from(piece.length_ns);
            ends.constant_moment += u128::from(piece.length_ns) * u128::from(piece.delay_ns);
        }
    }

    fn ends(&mut self, layer: usize, ns: u64) -> &mut Ends {
        if self.layers.len() <= layer {
            self.layers.resize_with(layer + 1, Vec::new);
        }
        let cells = &mut self.layers[layer];
        let cell = cell_of(ns);
        if cells.len() <= cell {
            cells.resize(cell + 1, Ends::default());
        }
        &mut cells[cell]
    }

    /// Returns the counts since the last call, and resets them.
    pub(super) fn take(&mut self) -> Delays {
        let layers = self.layers.iter_mut().map(|cells| {
            let mut layer = Layer::default();
            let (mut begun, mut sum_ns, mut squares) = (0, 0, 0.0);
            let (mut below_ns, mut moment_below) = (0, 0.0);
            for (cell, ends) in cells.drain(..).enumerate() {
                begun += ends.begun;
                sum_ns += ends.sum_ns;
                squares += ends.squares;
                let (from_ns, to_ns) = (edge_ns(cell) as f64, edge_ns(cell + 1));
                let falling_ns = i128::from(to_ns) * begun - sum_ns;
                let to_ns = to_ns as f64;
                let falling_moment = (to_ns * to_ns * begun as f64 - squares) / 2.0;
                let fell_ns = (falling_ns - below_ns) as f64;
                // The subtraction of two large numbers has a rounding error. `clamp` limits the
                // error to the width of the cell.
                let fallen =
                    (falling_moment - moment_below).clamp(from_ns * fell_ns, to_ns * fell_ns);
                let moments_ns = ends.constant_ns as f64 + fell_ns;
                let moment = ends.constant_moment as f64 + fallen;
                layer.moments_ns.push(moments_ns);
                layer.weighted_ns.push(moment);
                (below_ns, moment_below) = (falling_ns, falling_moment);
            }
            layer
        });
        Delays {
            layers: layers.collect(),
        }
    }
}

impl Delays {
    /// Adds the counts of `others` to these counts.
    pub(super) fn add(&mut self, others: &Delays) {
        if self.layers.len() < others.layers.len() {
            self.layers.resize_with(others.layers.len(), Layer::default);
        }
        for (layer, others) in self.layers.iter_mut().zip(&others.layers) {
            layer.add(others, 1.0);
        }
    }

    /// Returns the weighted sum of all layers.
    pub(super) fn weighted(&self, weights: &[f64]) -> Layer {
        let mut all = Layer::default();
        for (layer, weight) in self.layers.iter().zip(weights) {
            if *weight > 0.0 {
                all.add(layer, *weight);
            }
        }
        all
    }
}

impl Layer {
    /// Adds the counts of `others`, multiplied by `weight`.
    pub(super) fn add(&mut self, others: &Layer, weight: f64) {
        let columns = [
            (&mut self.moments_ns, &others.moments_ns),
            (&mut self.weighted_ns, &others.weighted_ns),
        ];
        for (own, others) in columns {
            if own.len() < others.len() {
                own.resize(others.len(), 0.0);
            }
            for (own, other) in own.iter_mut().zip(others) {
                *own += weight * other;
            }
        }
    }

    /// Returns for each cell the fraction of the moments in this cell and in all cells above. The
    /// first value is 1, and the values fall.
    pub(super) fn not_below_cells(&self) -> Vec<f64> {
        let mut above: Vec<f64> = Vec::with_capacity(self.moments_ns.len());
        let mut sum_ns = 0.0;
        for ns in self.moments_ns.iter().rev() {
            sum_ns += ns;
            above.push(sum_ns);
        }
        above.reverse();
        if sum_ns > 0.0 {
            above.iter_mut().for_each(|it| *it /= sum_ns);
        }
        above
    }

    /// Returns the mean delay, in nanoseconds.
    pub(super) fn mean_ns(&self) -> f64 {
        let all_ns: f64 = self.moments_ns.iter().sum();
        if all_ns == 0.0 {
            return 0.0;
        }
        self.weighted_ns.iter().sum::<f64>() / all_ns
    }
}
