//! Compares the time that a guest lost to tasks of its host with the run delay that the host's
//! scheduler counted for the vCPU's thread meanwhile.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::vmm_steps::ThreadSchedstat;

/// A gap of the guest, and the time lost in it to some shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GapLoss {
    /// End of the gap, by the guest's TSC.
    pub end_tsc: u64,
    /// Lost time in nanoseconds.
    pub ns: u64,
}

/// Comparison between two reads of the scheduler's count, both while the guest measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitPeriod {
    /// Time between the reads, by the guest's TSC.
    pub apart_tsc: u64,
    /// Run delay counted between them, nanoseconds.
    pub run_delay_ns: u64,
    /// Time lost in gaps that certainly ended between the reads, nanoseconds.
    pub lost_ns: u64,
    /// Lower bound: `lost_ns` without the first gap. KVM reads the count before an entry. A wait
    /// between this read and the entry reaches the steal clock only at the next entry. So the first
    /// gap may contain a wait that happened before the first read.
    pub least_ns: u64,
    /// Upper bound: `least_ns`, the gaps that ended during a read, and the next gap, which may
    /// contain such a delayed wait.
    pub most_ns: u64,
    /// Number of gaps in the upper bound, without the next gap.
    pub gaps: usize,
}

impl WaitPeriod {
    /// Compares between the first and the last read during these gaps. A wait is counted when it
    /// ends, and the gap that the guest observes ends with it. So each gap counts by its end.
    ///
    /// # Errors
    /// If there are fewer than two reads in that time.
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

/// Returns the time that each gap of a joined result lost to these shares, from the trees of all
/// gaps.
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

/// Returns the steal time of each gap of the guest's own recording. A joined result says when each
/// gap ended by the TSC, and the trace how much of it was stolen.
///
/// # Errors
/// If one of them lacks a gap that the other has.
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
        // The first read is before the guest measured, the last one after.
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
