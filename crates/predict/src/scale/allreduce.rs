//! Delay of a step of a program that ends with an allreduce by recursive doubling.
//!
//! After the computation of a step, the ranks exchange data in ceil(log2 ranks) rounds. In each
//! round, a rank needs some CPU time to send, to receive and to add, and noise may take CPU time. A
//! rank begins a round when both the rank and its partner have ended the previous round. The model
//! has no network time, because it would be the same with and without noise.
//!
//! The group of ranks whose data a rank has received doubles in each round. The end of a round for
//! one rank is exact: the rank first waits for the later of two independent ranks, and then needs
//! its own round.
//!
//! The last rank of a group ends a round when two conditions hold. It has ended the previous round,
//! and the rank with the largest delay in this round has ended this round. The model assumes that
//! the rank with the largest delay begins the round as late as any rank of the group does. The two
//! delays depend on each other, because both ranks have waited for the same earlier ranks. So the
//! result is an estimate. The tests compare it with a simulated program.

use super::grid::cell_of;
use super::slowest::Slowest;

/// Number of cells of the grid that are merged into one cell here. Each round computes sums over
/// all pairs of cells.
const CELLS: usize = 8;
/// Probability below which a cell is dropped. Such cells do not matter for the numbers of hosts
/// that recordings can support.
const NEVER: f64 = 1e-12;

/// Distribution of a delay. Each non-empty cell has its mean delay in nanoseconds and its
/// probability.
#[derive(Debug, Clone)]
struct Delay(Vec<(f64, f64)>);

impl Delay {
    fn of(slowest: &Slowest) -> Delay {
        Delay::gathered(slowest.cells())
    }

    fn gathered(all: impl Iterator<Item = (f64, f64)>) -> Delay {
        let mut cells: Vec<(f64, f64)> = Vec::new();
        for (ns, chance) in all {
            let cell = cell_of(ns as u64) / CELLS;
            if cells.len() <= cell {
                cells.resize(cell + 1, (0.0, 0.0));
            }
            cells[cell].0 += ns * chance;
            cells[cell].1 += chance;
        }
        cells.retain(|(_, chance)| *chance > NEVER);
        for (ns, chance) in &mut cells {
            *ns /= *chance;
        }
        Delay(cells)
    }

    /// Returns the distribution of the largest of `count` independent delays of this distribution.
    /// `count` need not be a whole number.
    fn greatest_of(&self, count: f64) -> Delay {
        let all: f64 = self.0.iter().map(|(_, chance)| chance).sum();
        let (mut above, mut below) = (all, 0.0);
        let cells = self.0.iter().map(|(ns, chance)| {
            above -= chance;
            let now_below = (count * (-(above / all).max(0.0)).ln_1p()).exp();
            let here = now_below - below;
            below = now_below;
            (*ns, here)
        });
        Delay(cells.filter(|(_, chance)| *chance > NEVER).collect())
    }

    /// Returns the distribution of the sum of two independent delays.
    fn then(&self, other: &Delay) -> Delay {
        let pairs = self.0.iter().flat_map(|(ns, chance)| {
            let others = other.0.iter();
            others.map(move |(more_ns, with)| (ns + more_ns, chance * with))
        });
        Delay::gathered(pairs)
    }

    /// Returns the distribution of the larger of two delays: this delay, and the sum of `begin` and
    /// `other`. This delay and `begin` are combined at equal quantiles, so that both are large
    /// together.
    fn or_after(&self, begin: &Delay, other: &Delay) -> Delay {
        let mut steps: Vec<(f64, f64, f64)> = Vec::new();
        let (mut own, mut begun) = (self.0.iter().copied(), begin.0.iter().copied());
        let (mut now, mut at) = (own.next(), begun.next());
        while let (Some((ns, chance)), Some((begin_ns, begin_chance))) = (now, at) {
            let both = chance.min(begin_chance);
            steps.push((ns, begin_ns, both));
            now = match chance - both {
                left if left > NEVER => Some((ns, left)),
                _ => own.next(),
            };
            at = match begin_chance - both {
                left if left > NEVER => Some((begin_ns, left)),
                _ => begun.next(),
            };
        }
        let pairs = steps.iter().flat_map(|(ns, begin_ns, chance)| {
            let others = other.0.iter();
            others.map(move |(more_ns, with)| (ns.max(begin_ns + more_ns), chance * with))
        });
        Delay::gathered(pairs)
    }

    fn mean_ns(&self) -> f64 {
        self.0.iter().map(|(ns, chance)| ns * chance).sum()
    }
}

/// Returns the number of rounds of an allreduce among this number of ranks.
pub(super) fn rounds(ranks: u64) -> u32 {
    ranks.next_power_of_two().ilog2()
}

/// Returns the mean delay of the rank that ends last, in nanoseconds. `step` is the delay of one
/// host in the computation, `round` is its delay in one round.
pub(super) fn mean_delay_ns(step: &Slowest, round: &Slowest, hosts: f64, ranks: u64) -> f64 {
    let among_hosts = hosts.log2().ceil().max(0.0) as u32;
    let within = rounds(ranks).saturating_sub(among_hosts);
    let (step, round) = (Delay::of(step), Delay::of(round));
    let of_one = round.greatest_of(hosts / ranks as f64);
    let mut group = hosts / f64::from(among_hosts).exp2();
    let mut last = step.greatest_of(group);
    let mut any = last.clone();
    for nth in 0..within + among_hosts {
        let mut entered = any;
        if nth >= within {
            group *= 2.0;
            last = last.greatest_of(2.0);
            entered = entered.greatest_of(2.0);
        }
        last = last.or_after(&entered, &round.greatest_of(group));
        any = entered.then(&of_one);
    }
    last.mean_ns()
}
