//! Delay of the slowest of many hosts.
//!
//! For independent hosts, the probability that the delay of every host is at most x is a product.
//! Its factors are the probabilities for the single hosts. So the computation takes as long for any
//! number of hosts as for one host.
//!
//! A step begins when the slowest rank has ended the previous step. A gap that began while its rank
//! computed is over when the step begins, because the other ranks have waited for this rank. But a
//! gap may have begun while its rank waited for the others, and a step may begin in such a gap. The
//! gap is then younger than the wait of its rank. So the delay in a step depends on the waits in
//! the previous step. The waits are the states of a Markov chain, and the result is the mean of
//! this chain.

use super::delays::{Delays, Layer, next_age_ns};
use super::grid::cell_of;

/// Largest change of a state's probability in one iteration at which the chain counts as
/// stationary.
const STILL: f64 = 1e-9;
const STEPS_AT_MOST: usize = 10_000;

/// Hosts with the same distribution of delays.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hosts<'a> {
    pub(super) delays: &'a Delays,
    pub(super) count: f64,
}

/// Distribution of the delay of the slowest host.
#[derive(Debug, Clone)]
pub(super) struct Slowest {
    /// For each cell of the grid, the logarithm of the probability that the delay of the slowest
    /// host is in this cell or a lower cell.
    log_below: Vec<f64>,
    /// Mean delay in each cell, in nanoseconds.
    means_ns: Vec<f64>,
}

/// Distribution of the moments at which steps begin. It is given by the probability of each wait in
/// the previous step.
#[derive(Debug)]
pub(super) struct Begins {
    waits: Vec<f64>,
}

impl Begins {
    /// Returns the distribution of a host's delay in a step that begins at these moments.
    pub(super) fn of(&self, delays: &Delays) -> Layer {
        delays.weighted(&self.weights(delays))
    }

    /// Returns the weight of each layer of a host's moments. A step cannot begin at some moments
    /// after a given wait, so the remaining moments get a higher weight.
    pub(super) fn weights(&self, delays: &Delays) -> Vec<f64> {
        let mut met = vec![0.0; delays.layers.len()];
        for (wait, chance) in self.waits.iter().enumerate() {
            let (weights, all) = met_after(delays, wait);
            if all > 0.0 {
                for (met, weight) in met.iter_mut().zip(&weights) {
                    *met += chance * weight / all;
                }
            }
        }
        met
    }
}

impl Slowest {
    /// Returns the delay of the slowest of these hosts, and the moments at which steps begin.
    /// `ranks` is the number of all ranks on these hosts.
    pub(super) fn of(hosts: &[Hosts<'_>], ranks: u64) -> (Slowest, Begins) {
        let layers = hosts.iter().map(|it| it.delays.layers.len()).max();
        let layers = layers.unwrap_or(0);
        // The chain has one state for each wait. The ranges of waits equal the age ranges of the
        // layers.
        let states = (0..layers.max(1)).map(|wait| {
            let hosts = hosts.iter().map(|it| {
                let (weights, _) = met_after(it.delays, wait);
                (it.delays.weighted(&weights), it.count)
            });
            Slowest::of_layers(hosts)
        });
        let states: Vec<Slowest> = states.collect();
        let waits = at_rest(&states, (ranks - 1) as f64 / ranks as f64);
        let begins = Begins { waits };
        let all = hosts.iter().map(|it| (begins.of(it.delays), it.count));
        let mixed = Slowest::of_layers(all);
        let log_below = (0..mixed.log_below.len()).map(|cell| {
            let states = states.iter().zip(&begins.waits);
            let below = states.map(|(state, chance)| chance * state.below(cell));
            below.sum::<f64>().ln()
        });
        let slowest = Slowest {
            log_below: log_below.collect(),
            ..mixed
        };
        (slowest, begins)
    }

    /// Returns for each cell the mean delay, in nanoseconds, and the probability of the cell.
    pub(super) fn cells(&self) -> impl Iterator<Item = (f64, f64)> {
        let mut below = 0.0;
        let cells = self.log_below.iter().zip(&self.means_ns);
        cells.map(move |(log_below, mean_ns)| {
            let here = log_below.exp() - below;
            below += here;
            (*mean_ns, here)
        })
    }

    /// Returns the delay of the slowest of these hosts. Each entry is a kind of host and the number
    /// of hosts of this kind.
    pub(super) fn of_layers(hosts: impl Iterator<Item = (Layer, f64)>) -> Slowest {
        let mut log_below: Vec<f64> = Vec::new();
        let mut pooled = Layer::default();
        for (layer, count) in hosts {
            let above = layer.not_below_cells();
            if log_below.len() < above.len() {
                log_below.resize(above.len(), 0.0);
            }
            // The delay of a host is never above its last cell.
            for (log_below, above) in log_below.iter_mut().zip(above.iter().skip(1)) {
                *log_below += count * (-above).ln_1p();
            }
            pooled.add(&layer, count);
        }
        let cells = pooled.weighted_ns.iter().zip(&pooled.moments_ns);
        let means_ns = cells.map(|(weighted_ns, ns)| match *ns > 0.0 {
            true => weighted_ns / ns,
            false => 0.0,
        });
        Slowest {
            means_ns: means_ns.collect(),
            log_below,
        }
    }

    /// Returns the mean delay of the slowest host, in nanoseconds.
    pub(super) fn mean_ns(&self) -> f64 {
        self.cells().map(|(mean_ns, chance)| mean_ns * chance).sum()
    }

    /// Returns the delay of one host, if this value is the delay of the slowest of `hosts` equal
    /// hosts.
    pub(super) fn one_of(&self, hosts: f64) -> Slowest {
        let log_below = self.log_below.iter().map(|it| it / hosts);
        Slowest {
            log_below: log_below.collect(),
            ..self.clone()
        }
    }

    /// Returns the probability that the delay is in this cell or a lower cell.
    fn below(&self, cell: usize) -> f64 {
        self.log_below.get(cell).map_or(1.0, |it| it.exp())
    }

    /// Returns the probability that the slowest of a fraction `part` of all ranks has a longer
    /// delay than `ns`.
    fn is_later_than(&self, ns: u64, part: f64) -> f64 {
        let log_below = self.log_below.get(cell_of(ns)).copied().unwrap_or(0.0);
        // Without other ranks, no delay is longer.
        if part > 0.0 {
            -(part * log_below).exp_m1()
        } else {
            0.0
        }
    }
}

/// Returns the weight of each layer of a host's moments after a wait, and the weighted number of
/// all moments. If some CPU of the host is always in a gap, no moments remain after a short wait.
/// Then the result is for the shortest longer wait after which moments remain.
fn met_after(delays: &Delays, wait: usize) -> (Vec<f64>, f64) {
    let layers = delays.layers.len();
    let sizes = delays.layers.iter().map(|it| it.moments_ns.iter().sum());
    let sizes: Vec<f64> = sizes.collect();
    let after = |wait: usize| {
        let weights: Vec<f64> = (0..layers).map(|layer| weight(layer, wait)).collect();
        let all: f64 = weights.iter().zip(&sizes).map(|(a, b)| a * b).sum();
        (weights, all)
    };
    let mut longer = (wait..wait.max(layers) + 1).map(after);
    longer
        .find(|(_, all)| *all > 0.0)
        .unwrap_or_else(|| after(wait))
}

/// Returns the weight of moments of this layer after a wait. The range of the wait equals the age
/// range of the layer `wait + 1`. So gaps of all layers up to `wait` are younger than the wait, and
/// half of the gaps of the layer `wait + 1` are.
fn weight(layer: usize, wait: usize) -> f64 {
    match layer {
        0 => 1.0,
        _ if layer <= wait => 1.0,
        _ if layer == wait + 1 && wait > 0 => 0.5,
        _ => 0.0,
    }
}

/// Returns the stationary probability of each state of the chain. In each state, the next wait of a
/// rank is the delay of the other ranks; `others` is their fraction of all ranks.
fn at_rest(states: &[Slowest], others: f64) -> Vec<f64> {
    let next = states.iter().map(|state| {
        let longer = |wait: usize| match wait {
            0 => 1.0,
            _ if wait == states.len() => 0.0,
            _ => state.is_later_than(next_age_ns(wait), others),
        };
        let waits = 0..states.len();
        waits.map(|wait| longer(wait) - longer(wait + 1)).collect()
    });
    let next: Vec<Vec<f64>> = next.collect();
    let mut chances = vec![0.0; states.len()];
    chances[0] = 1.0;
    for _ in 0..STEPS_AT_MOST {
        let mut then = vec![0.0; states.len()];
        for (chance, next) in chances.iter().zip(&next) {
            for (then, next) in then.iter_mut().zip(next) {
                *then += chance * next;
            }
        }
        let moved = then.iter().zip(&chances).map(|(a, b)| (a - b).abs());
        let is_still = moved.fold(0.0, f64::max) < STILL;
        chances = then;
        if is_still {
            break;
        }
    }
    chances
}
