//! How late the slowest of many hosts is.
//!
//! Hosts that are independent of one another are all no later than x with the product of their chances to be
//! no later than x, so as many hosts as one likes cost as much as one.
//!
//! A step begins when the slowest rank of the last one has ended. That is at no moment in a gap of a CPU
//! whose rank was at work when the gap began: such a gap is waited for. It may be in a gap that began while the
//! rank waited for others, and has lasted for less than that. So how late the slowest is in one step depends on
//! how long ranks waited in the last one: these waits are the states of a chain, and what is told is its mean.

use super::delays::{Delays, Layer, next_age_ns};
use super::grid::cell_of;

/// The chain has come to rest when no state is more or less likely by more than this than a step before.
const STILL: f64 = 1e-9;
const STEPS_AT_MOST: usize = 10_000;

/// Hosts that are alike.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hosts<'a> {
    pub(super) delays: &'a Delays,
    pub(super) count: f64,
}

/// How late the slowest rank is.
#[derive(Debug, Clone)]
pub(super) struct Slowest {
    /// By the grid: how likely the slowest host is in this cell or below; its logarithm.
    log_below: Vec<f64>,
    /// The mean delay of those that are in a cell, nanoseconds.
    means_ns: Vec<f64>,
}

/// At which moments steps begin: how likely a wait of each length is in the step before.
#[derive(Debug)]
pub(super) struct Begins {
    waits: Vec<f64>,
}

impl Begins {
    /// The delays of a step on this host, as often as they are met.
    pub(super) fn of(&self, delays: &Delays) -> Layer {
        delays.weighted(&self.weights(delays))
    }

    /// How often moments of each layer of a host are met, of all that there are: what is left over of a
    /// layer by a wait is less of more, or more of less.
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
    /// Of these hosts, on which are so many ranks, and when steps begin on them.
    pub(super) fn of(hosts: &[Hosts<'_>], ranks: u64) -> (Slowest, Begins) {
        let layers = hosts.iter().map(|it| it.delays.layers.len()).max();
        let layers = layers.unwrap_or(0);
        // After a wait of each length, which are those of the layers.
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

    /// By how likely it is: the mean delay of each cell, nanoseconds, and the chance to be in it.
    pub(super) fn cells(&self) -> impl Iterator<Item = (f64, f64)> {
        let mut below = 0.0;
        let cells = self.log_below.iter().zip(&self.means_ns);
        cells.map(move |(log_below, mean_ns)| {
            let here = log_below.exp() - below;
            below += here;
            (*mean_ns, here)
        })
    }

    /// Of hosts, each kind with how many there are.
    pub(super) fn of_layers(hosts: impl Iterator<Item = (Layer, f64)>) -> Slowest {
        let mut log_below: Vec<f64> = Vec::new();
        let mut pooled = Layer::default();
        for (layer, count) in hosts {
            let above = layer.not_below_cells();
            if log_below.len() < above.len() {
                log_below.resize(above.len(), 0.0);
            }
            // Above its last cell a host never is.
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

    /// The mean delay of the slowest, nanoseconds.
    pub(super) fn mean_ns(&self) -> f64 {
        self.cells().map(|(mean_ns, chance)| mean_ns * chance).sum()
    }

    /// One of so many hosts that are alike.
    pub(super) fn one_of(&self, hosts: f64) -> Slowest {
        let log_below = self.log_below.iter().map(|it| it / hosts);
        Slowest {
            log_below: log_below.collect(),
            ..self.clone()
        }
    }

    /// How likely it is in this cell or below.
    fn below(&self, cell: usize) -> f64 {
        self.log_below.get(cell).map_or(1.0, |it| it.exp())
    }

    /// How likely it is later than this, if it is the slowest of so much of all ranks.
    fn is_later_than(&self, ns: u64, part: f64) -> f64 {
        let log_below = self.log_below.get(cell_of(ns)).copied().unwrap_or(0.0);
        // Never where there are no others, however late this one is.
        if part > 0.0 {
            -(part * log_below).exp_m1()
        } else {
            0.0
        }
    }
}

/// How often moments of each layer of a host are met after a wait, and how many these are. A host of which some CPU is
/// always in a gap has no moment for a short wait: its step begins after the shortest one that has any.
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

/// How often a moment of this layer is one at which a step begins, after a wait that was no longer than
/// the ages of the layer behind `wait`: those of `wait` itself are shorter, and of those behind it half.
fn weight(layer: usize, wait: usize) -> f64 {
    match layer {
        0 => 1.0,
        _ if layer <= wait => 1.0,
        _ if layer == wait + 1 && wait > 0 => 0.5,
        _ => 0.0,
    }
}

/// How likely each state of the chain is in the long run. From each the next wait is that for others, which
/// are so much of all ranks.
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
