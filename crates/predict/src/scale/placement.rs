//! Placement of the ranks of a program on hosts.
//!
//! Ranks fill one host after the other. Within a host they fill the CPUs in the order of the CPU
//! numbers. If there are more ranks than recorded CPUs, the recorded hosts are used again as
//! additional hosts.

use std::collections::BTreeSet;

/// Index of a recorded host, and the number of its CPUs that have ranks (its first CPUs).
pub(super) type Part = (usize, usize);

/// Placement of a number of ranks.
#[derive(Debug)]
pub(super) struct Placement {
    pub(super) ranks: u64,
    /// Kinds of hosts, each with the number of hosts of this kind.
    pub(super) hosts: Vec<(Part, f64)>,
}

impl Placement {
    /// Places ranks on hosts with these numbers of CPUs. If `in_phase` is true, all hosts do the
    /// same as the first host at each moment.
    pub(super) fn new(ranks: u64, cpus: &[usize], in_phase: bool) -> Placement {
        let of_round: u64 = cpus.iter().map(|it| *it as u64).sum();
        let (rounds, mut left) = (ranks / of_round, ranks % of_round);
        if in_phase && rounds > 0 {
            let hosts = vec![((0, cpus[0]), 1.0)];
            return Placement { ranks, hosts };
        }
        let mut hosts = Vec::new();
        for (host, cpus) in cpus.iter().enumerate() {
            let here = left.min(*cpus as u64);
            left -= here;
            let is_whole = here == *cpus as u64;
            let count = rounds + u64::from(is_whole);
            if count > 0 {
                hosts.push(((host, *cpus), count as f64));
            }
            if here > 0 && !is_whole {
                hosts.push(((host, here as usize), 1.0));
            }
        }
        Placement { ranks, hosts }
    }

    /// Returns the number of ranks that can have different delays. If the hosts are in phase, these
    /// are the ranks of one host.
    pub(super) fn own_ranks(&self) -> u64 {
        let ranks = self
            .hosts
            .iter()
            .map(|((_, used), count)| *used as f64 * count);
        (ranks.sum::<f64>() as u64).max(1)
    }

    /// Returns a placement on this fraction of the hosts, but on at least one host. Fractions above
    /// 1 count as 1.
    pub(super) fn part(&self, part: f64) -> Placement {
        let part = part.max(1.0 / self.count()).min(1.0);
        let hosts = self.hosts.iter().map(|(host, count)| (*host, count * part));
        Placement {
            ranks: ((self.ranks as f64 * part) as u64).max(1),
            hosts: hosts.collect(),
        }
    }

    /// Returns the number of hosts.
    pub(super) fn count(&self) -> f64 {
        self.hosts.iter().map(|(_, count)| count).sum()
    }
}

/// Returns all different kinds of hosts that these placements use.
pub(super) fn parts(placements: &[Placement]) -> BTreeSet<Part> {
    let hosts = placements.iter().flat_map(|it| &it.hosts);
    hosts.map(|(part, _)| *part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_filled_one_after_the_other_and_come_again() {
        let hosts = |ranks, in_phase| Placement::new(ranks, &[4, 2], in_phase).hosts;
        assert_eq!(hosts(1, false), [((0, 1), 1.0)]);
        assert_eq!(hosts(4, false), [((0, 4), 1.0)]);
        assert_eq!(hosts(5, false), [((0, 4), 1.0), ((1, 1), 1.0)]);
        let more = [((0, 4), 3.0), ((0, 1), 1.0), ((1, 2), 3.0)];
        let mut found = hosts(19, false);
        found.sort_by_key(|(part, _)| (part.0, usize::MAX - part.1));
        assert_eq!(found, more);
        assert_eq!(Placement::new(1_000, &[4], true).hosts, [((0, 4), 1.0)]);
    }
}
