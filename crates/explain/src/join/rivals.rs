//! Scores of every vCPU of the host as one CPU of the guest, for comparing each vCPU with all
//! others.

use vmnoise_events::VcpuId;

/// Odds of one vCPU over chance, in decades.
#[derive(Debug, Clone, Copy)]
pub(super) struct Score {
    pub(super) vcpu: VcpuId,
    pub(super) decades: f64,
}

/// Scores of all vCPUs as one CPU of the guest. The sums before and after each index are
/// precomputed, because a host may have thousands of vCPUs, and each vCPU is looked up.
#[derive(Debug)]
pub(super) struct Rivals {
    scores: Vec<Score>,
    /// Sum of the scores before each index; the last element is the sum of all scores.
    before: Vec<Sum>,
    /// Sum of the scores from each index to the end.
    from: Vec<Sum>,
}

/// Comparison values of all vCPUs except a given one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Others {
    /// The vCPU with the best score.
    pub(super) vcpu: VcpuId,
    pub(super) decades: f64,
    /// Mean odds of these vCPUs over chance, as a common logarithm.
    pub(super) mean: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    odds: f64,
    best: Option<Score>,
}

impl Sum {
    fn and(self, other: Sum) -> Sum {
        let bests = self.best.into_iter().chain(other.best);
        Sum {
            odds: self.odds + other.odds,
            best: bests.max_by(|a, b| a.decades.total_cmp(&b.decades)),
        }
    }

    fn of(score: &Score) -> Sum {
        Sum {
            // Larger odds would overflow.
            odds: 10_f64.powf(score.decades.min(300.0)),
            best: Some(*score),
        }
    }
}

impl Rivals {
    /// Creates the index; `scores` ascend by vCPU.
    pub(super) fn new(scores: Vec<Score>) -> Rivals {
        let mut before = vec![Sum::default()];
        let mut sum = Sum::default();
        for score in &scores {
            sum = sum.and(Sum::of(score));
            before.push(sum);
        }
        let mut from = vec![Sum::default()];
        let mut sum = Sum::default();
        for score in scores.iter().rev() {
            sum = Sum::of(score).and(sum);
            from.push(sum);
        }
        from.reverse();
        Rivals {
            scores,
            before,
            from,
        }
    }

    /// Returns the comparison values of all vCPUs except this one; `None` if there is no other
    /// vCPU.
    pub(super) fn of(&self, vcpu: VcpuId) -> Option<Others> {
        let place = self.scores.binary_search_by_key(&vcpu, |score| score.vcpu);
        let (until, after) =
            place.map_or((self.scores.len(), self.scores.len()), |at| (at, at + 1));
        let others = self.before[until].and(self.from[after]);
        let count = until + (self.scores.len() - after);
        let best = others.best?;
        Some(Others {
            vcpu: best.vcpu,
            decades: best.decades,
            mean: (others.odds / count as f64).log10(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_set_against_all_others() {
        let decades = [3.0, -2.0, 3.0, 280.0, 900.0, 0.5];
        let scores: Vec<Score> = (0..)
            .zip(decades)
            .map(|(id, decades)| Score {
                vcpu: VcpuId(id),
                decades,
            })
            .collect();
        let rivals = Rivals::new(scores.clone());
        for own in &scores {
            let others: Vec<&Score> = scores.iter().filter(|it| it.vcpu != own.vcpu).collect();
            let best = others.iter().max_by(|a, b| a.decades.total_cmp(&b.decades));
            let odds: f64 = (others.iter())
                .map(|it| 10_f64.powf(it.decades.min(300.0)))
                .sum();
            let reported = rivals.of(own.vcpu).unwrap();
            assert_eq!(reported.vcpu, best.unwrap().vcpu);
            let mean = (odds / others.len() as f64).log10();
            assert!((reported.mean - mean).abs() < 1e-9, "{reported:?} {mean}");
        }
        assert_eq!(
            rivals.of(VcpuId(99)).unwrap().vcpu,
            VcpuId(4),
            "all are others"
        );
        assert_eq!(
            Rivals::new(scores[..1].to_vec()).of(VcpuId(0)),
            None,
            "alone"
        );
    }
}
