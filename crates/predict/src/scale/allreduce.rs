//! An allreduce by recursive doubling, after the step.
//!
//! So many ranks exchange in ceil(log2 ranks) rounds. In each a rank needs some time of its CPU (it sends,
//! receives and adds), and noise may hit that; it begins when the rank and the one that it exchanges with
//! have ended the round before. The network itself takes no time here: it would add the same with noise and
//! without.
//!
//! Groups of ranks that have heard of one another double with each round. What one rank has waited for until
//! a round follows exactly from that: the later one of two that know nothing of one another, and then its own
//! round. The last of a group has ended a round when the last one had ended the round before, or when the
//! rank has ended this one that noise hits worst in it, which is as late as any when that begins. How late both are
//! goes together: both have waited for the same steps. That is an estimate; the tests hold it beside a
//! program that is run.

use super::grid::cell_of;
use super::slowest::Slowest;

/// Eight cells of the grid are one here: sums of all with all are taken, round by round.
const CELLS: usize = 8;
/// What is less likely adds nothing, of as many hosts as a recording carries.
const NEVER: f64 = 1e-12;

/// A delay's distribution: mean and likelihood of each cell that has any.
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

    /// The greatest of so many of it, which need be no whole number.
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

    /// One after the other.
    fn then(&self, other: &Delay) -> Delay {
        let pairs = self.0.iter().flat_map(|(ns, chance)| {
            let others = other.0.iter();
            others.map(move |(more_ns, with)| (ns + more_ns, chance * with))
        });
        Delay::gathered(pairs)
    }

    /// The later one of this and of another that is as likely as this, and then has a third one after it.
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

/// Rounds of so many ranks.
pub(super) fn rounds(ranks: u64) -> u32 {
    ranks.next_power_of_two().ilog2()
}

/// The mean delay of the last rank, nanoseconds, where a host of so many ranks has these delays in its step
/// and in a round.
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
