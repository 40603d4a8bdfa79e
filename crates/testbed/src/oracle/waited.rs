//! Compares the time that a guest lost to tasks of its host with the run delay that the host's
//! scheduler counted for the vCPU's thread at the same time.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::vmm_steps::ThreadSchedstat;

/// A gap of the guest, and the time that certain shares took in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GapLoss {
    /// End of the gap, by the guest's TSC.
    pub end_tsc: u64,
    /// Time that these shares took in the gap, nanoseconds.
    pub ns: u64,
}

/// Comparison for the time between two reads of the scheduler's run delay. The guest measured at
/// both reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitPeriod {
    /// Time between the two reads, in cycles of the guest's TSC.
    pub apart_tsc: u64,
    /// Run delay that the scheduler counted between the reads, nanoseconds.
    pub run_delay_ns: u64,
    /// Time lost in gaps that certainly ended between the reads, nanoseconds.
    pub lost_ns: u64,
    /// Lower bound of the lost time, nanoseconds: `lost_ns` without the first gap. KVM reads the
    /// run delay before it enters the guest. If the vCPU waits between this read and the entry, the
    /// guest's steal clock shows this wait only after the next entry. So the first gap may contain
    /// a wait from before the first read.
    pub least_ns: u64,
    /// Upper bound of the lost time, nanoseconds: `least_ns`, the gaps that ended during a read,
    /// and the next gap. The next gap may contain a wait that the steal clock showed late.
    pub most_ns: u64,
    /// Number of gaps in `most_ns`, without the next gap.
    pub gaps: usize,
}

impl WaitPeriod {
    /// Compares the first and the last read that happened while these gaps were measured. The
    /// scheduler counts a wait when the wait ends, and the guest's gap ends at the same time. So
    /// each gap counts at its end.
    ///
    /// # Errors
    /// If there are fewer than two such reads.
    pub fn of(gaps: &[GapLoss], looks: &[ThreadSchedstat]) -> Result<WaitPeriod> {
        let first = gaps.iter().map(|gap| gap.end_tsc).min();
        let last = gaps.iter().map(|gap| gap.end_tsc).max();
        let (first, last) = first.zip(last).context("the guest has no gap")?;
        let inside = |look: &&ThreadSchedstat| look.begin_tsc > first && look.end_tsc < last;
        let mut looks = looks.iter().filter(inside);
        let begin = looks.next().context("no read while the guest measured")?;
        let end = looks.next_back().context("only one read meanwhile")?;
        let mut gaps: Vec<GapLoss> = gaps.iter().copied().filter(|gap| gap.ns > 0).collect();
        gaps.sort_unstable_by_key(|gap| gap.end_tsc);
        let before = |tsc: u64| gaps.partition_point(|gap| gap.end_tsc < tsc);
        let after = |tsc: u64| gaps.partition_point(|gap| gap.end_tsc <= tsc);
        let surely = before(begin.end_tsc)..after(end.begin_tsc);
        let perhaps = before(begin.begin_tsc)..after(end.end_tsc);
        let sum = |range: Range<usize>| -> u64 {
            let range = gaps.get(range).unwrap_or_default();
            range.iter().map(|gap| gap.ns).sum()
        };
        Ok(WaitPeriod {
            apart_tsc: end.end_tsc - begin.begin_tsc,
            run_delay_ns: end.run_delay_ns - begin.run_delay_ns,
            lost_ns: sum(surely.clone()),
            least_ns: sum(surely.start + 1..surely.end),
            most_ns: sum(perhaps.start..gaps.len().min(perhaps.end + 1)),
            gaps: perhaps.len(),
        })
    }
}

/// Returns, for each gap of a joined result, the time that these shares took in the gap. The result
/// must have a tree for every gap.
///
/// # Errors
/// If the result has no trees.
pub fn joined(result: &Value, shares: &[&str]) -> Result<Vec<GapLoss>> {
    let trees = result["trees"].as_array().context("no trees")?;
    let lost = |tree: &Value| {
        let exits = tree["exits"].as_array()?.iter();
        let parts = exits.filter_map(|exit| exit["parts"].as_array()).flatten();
        let wanted = parts.filter(|part| shares.iter().any(|share| part["share"] == *share));
        Some(GapLoss {
            end_tsc: tree["gap"]["end_tsc"].as_u64()?,
            ns: wanted.filter_map(|part| part["ns"].as_u64()).sum(),
        })
    };
    let lost: Option<Vec<GapLoss>> = trees.iter().map(lost).collect();
    lost.context("a tree without a gap")
}

/// Returns the steal time of each gap of the guest's own recording. The joined result contains the
/// end of each gap by the TSC. The trace contains the gap's steal time.
///
/// # Errors
/// If the result or the trace lacks a gap that the other contains.
pub fn stolen(result: &Value, trace: &str) -> Result<Vec<GapLoss>> {
    let trees = result["trees"].as_array().context("no trees")?;
    let ended = |tree: &Value| {
        let gap = &tree["gap"];
        Some((gap["start_mono_ns"].as_u64()?, gap["end_tsc"].as_u64()?))
    };
    let ended: Option<BTreeMap<u64, u64>> = trees.iter().map(ended).collect();
    let ended = ended.context("a tree without a gap")?;
    let gaps = super::xen::gaps(trace)?;
    ensure!(
        gaps.len() == ended.len(),
        "{} gaps in the trace, {} trees",
        gaps.len(),
        ended.len()
    );
    let lost = gaps.iter().map(|gap| {
        let end_tsc = ended.get(&gap.start_ns).context("a gap without a tree")?;
        Ok(GapLoss {
            end_tsc: *end_tsc,
            ns: gap.steal_ns,
        })
    });
    lost.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(begin_tsc: u64, run_delay_ns: u64) -> ThreadSchedstat {
        ThreadSchedstat {
            begin_tsc,
            end_tsc: begin_tsc + 10,
            run_delay_ns,
        }
    }

    #[test]
    fn a_gap_counts_where_its_wait_was_booked() {
        let gaps = [(90, 1), (150, 20), (205, 300), (320, 4_000), (900, 50_000)];
        let gaps = gaps.map(|(end_tsc, ns)| GapLoss { end_tsc, ns });
        // The first read was before the guest measured, and the last read was after that.
        let looks = [
            look(50, 0),
            look(100, 7),
            look(200, 9),
            look(310, 327),
            look(950, 999),
        ];
        let waited = WaitPeriod::of(&gaps, &looks).unwrap();
        assert_eq!((waited.run_delay_ns, waited.apart_tsc), (320, 220));
        let reported = (waited.lost_ns, waited.least_ns, waited.most_ns);
        assert_eq!((reported, waited.gaps), ((320, 300, 54_320), 3));
        assert!(WaitPeriod::of(&gaps, &looks[..2]).is_err());
        assert!(WaitPeriod::of(&[], &looks).is_err());
    }
}
