//! What a guest lost to the tasks of its host, beside the run delay that the host's scheduler
//! booked for the thread of its vCPU meanwhile.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::vmm_steps::Look;

/// A gap of the guest, with what it is told to have lost of some kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// When it ended, by the guest's TSC.
    pub end_tsc: u64,
    /// How much was lost in it, nanoseconds.
    pub ns: u64,
}

/// Between two looks at the scheduler's book, both while the guest measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waited {
    /// How far the looks lie apart, by the guest's TSC.
    pub apart_tsc: u64,
    /// What was booked between them as run delay, nanoseconds.
    pub run_delay_ns: u64,
    /// What the gaps lost that ended between them for sure, nanoseconds.
    pub lost_ns: u64,
    /// As `lost_ns`, without the first of them: KVM writes a wait that comes between its reading of the
    /// book and the entry behind that into the steal clock at the entry after that, so the first
    /// may have one of before.
    pub least_ns: u64,
    /// As `least_ns`, with those that ended while somebody looked, and with the next one, which may have
    /// such a wait.
    pub most_ns: u64,
    /// In how many gaps that was.
    pub gaps: usize,
}

impl Waited {
    /// Between the first look in the time of these gaps and the last. A wait is booked when it is
    /// over, and with it ends what the guest observes of it: so each gap counts by its end.
    ///
    /// # Errors
    /// If there are not two looks in that time.
    pub fn of(gaps: &[Lost], looks: &[Look]) -> Result<Waited> {
        let first = gaps.iter().map(|gap| gap.end_tsc).min();
        let last = gaps.iter().map(|gap| gap.end_tsc).max();
        let (first, last) = first.zip(last).context("the guest felt no gap")?;
        let inside = |look: &&Look| look.begin_tsc > first && look.end_tsc < last;
        let mut looks = looks.iter().filter(inside);
        let begin = looks.next().context("nobody looked while it measured")?;
        let end = looks.next_back().context("one look while it measured")?;
        let mut gaps: Vec<Lost> = gaps.iter().copied().filter(|gap| gap.ns > 0).collect();
        gaps.sort_unstable_by_key(|gap| gap.end_tsc);
        let before = |tsc: u64| gaps.partition_point(|gap| gap.end_tsc < tsc);
        let after = |tsc: u64| gaps.partition_point(|gap| gap.end_tsc <= tsc);
        let surely = before(begin.end_tsc)..after(end.begin_tsc);
        let perhaps = before(begin.begin_tsc)..after(end.end_tsc);
        let sum = |range: Range<usize>| -> u64 {
            let range = gaps.get(range).unwrap_or_default();
            range.iter().map(|gap| gap.ns).sum()
        };
        Ok(Waited {
            apart_tsc: end.end_tsc - begin.begin_tsc,
            run_delay_ns: end.run_delay_ns - begin.run_delay_ns,
            lost_ns: sum(surely.clone()),
            least_ns: sum(surely.start + 1..surely.end),
            most_ns: sum(perhaps.start..gaps.len().min(perhaps.end + 1)),
            gaps: perhaps.len(),
        })
    }
}

/// What each gap of a joined result lost to this share, by the trees of all of them.
///
/// # Errors
/// If the result has none.
pub fn joined(result: &Value, shares: &[&str]) -> Result<Vec<Lost>> {
    let trees = result["trees"].as_array().context("no trees")?;
    let lost = |tree: &Value| {
        let exits = tree["exits"].as_array()?.iter();
        let parts = exits.filter_map(|exit| exit["parts"].as_array()).flatten();
        let wanted = parts.filter(|part| shares.iter().any(|share| part["share"] == *share));
        Some(Lost {
            end_tsc: tree["gap"]["end_tsc"].as_u64()?,
            ns: wanted.filter_map(|part| part["ns"].as_u64()).sum(),
        })
    };
    let lost: Option<Vec<Lost>> = trees.iter().map(lost).collect();
    lost.context("a tree without a gap")
}

/// What each gap lost as steal by the guest's own recording. A joined result of it says when
/// each ended by the TSC, and its trace how much of each was stolen.
///
/// # Errors
/// If either lacks a gap that the other has.
pub fn stolen(result: &Value, trace: &str) -> Result<Vec<Lost>> {
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
        Ok(Lost {
            end_tsc: *end_tsc,
            ns: gap.steal_ns,
        })
    });
    lost.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(begin_tsc: u64, run_delay_ns: u64) -> Look {
        Look {
            begin_tsc,
            end_tsc: begin_tsc + 10,
            run_delay_ns,
        }
    }

    #[test]
    fn a_gap_counts_where_its_wait_was_booked() {
        let gaps = [(90, 1), (150, 20), (205, 300), (320, 4_000), (900, 50_000)];
        let gaps = gaps.map(|(end_tsc, ns)| Lost { end_tsc, ns });
        // One before the guest measured, and one after.
        let looks = [
            look(50, 0),
            look(100, 7),
            look(200, 9),
            look(310, 327),
            look(950, 999),
        ];
        let waited = Waited::of(&gaps, &looks).unwrap();
        assert_eq!((waited.run_delay_ns, waited.apart_tsc), (320, 220));
        let reported = (waited.lost_ns, waited.least_ns, waited.most_ns);
        assert_eq!((reported, waited.gaps), ((320, 300, 54_320), 3));
        assert!(Waited::of(&gaps, &looks[..2]).is_err());
        assert!(Waited::of(&[], &looks).is_err());
    }
}
