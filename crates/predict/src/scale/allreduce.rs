//! Allreduce by recursive doubling, after the step.
//!
//! The ranks exchange in ceil(log2 ranks) rounds. A round needs some CPU time of a rank (to send,
//! to receive and to add), and noise may hit this time. The round begins when the rank and its
//! partner have both ended the round before. The network takes no time here: it would add the same
//! with and without noise.
//!
//! The groups of ranks that have heard of one another double with each round. The wait of one rank
//! until a round is exact: it is the later one of two independent ranks, and then its own round.
//!
//! The last rank of a group has ended a round when two things have happened. The last rank has
//! ended the round before, and the rank that noise hits worst has ended this round. The model
//! assumes that this rank begins the round as late as any rank of the group. Both delays depend on
//! each other, because both ranks have waited for the same steps. This is an estimate. The tests
//! compare it with a simulated program.

use super::grid::cell_of;
use super::slowest::Slowest;

/// Cells of the grid that are one cell here: each round sums over all pairs of cells.
const CELLS: usize = 8;
/// Probability below which a cell is dropped. It changes nothing for the numbers of hosts that
/// recordings can support.
const NEVER: f64 = 1e-12;

/// Distribution of a delay: mean and probability of each cell that is not empty.
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

    /// Returns the greatest of `count` such delays. The count need not be a whole number.
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

    /// Returns the sum of two delays.
    fn then(&self, other: &Delay) -> Delay {
        let pairs = self.0.iter().flat_map(|(ns, chance)| {
            let others = other.0.iter();
            others.map(move |(more_ns, with)| (ns + more_ns, chance * with))
        });
        Delay::gathered(pairs)
    }

    /// Returns the later one of two delays: this one, and `begin` followed by `other`. This delay
    /// and `begin` are taken at equal ranks, so that both are late together.
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

/// Returns the number of rounds of this number of ranks.
pub(super) fn rounds(ranks: u64) -> u32 {
    ranks.next_power_of_two().ilog2()
}

/// Returns the mean delay of the last rank, in nanoseconds. `step` and `round` are the delays of
/// one of the hosts, in its step and in a round.
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
