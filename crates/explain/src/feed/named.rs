//! Names that a host reports: reasons of exits, and culprits. A host cuts each list to the largest
//! entries. If the previous list was full and lacks a name, the time of this name was therefore at
//! most the time of the smallest entry.

use std::collections::BTreeMap;

use serde::Serialize;
use vmnoise_events::{FeedDetail, HostCulprit, HostFrame, HostReason, Name, Share};

/// Maximum number of different names of one host. Further names are ignored.
const KEPT: usize = 1024;

/// All exits for one reason, as the host reports them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReportedReason {
    /// Reason of the exits.
    pub name: Name,
    /// Number of exits.
    pub exits: u64,
    /// Total length of these exits without halts, in nanoseconds.
    pub total_ns: u64,
}

/// A culprit on the host, as the host reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReportedCulprit {
    /// Share to which the culprit's time belongs.
    pub share: Share,
    /// Name of the culprit.
    pub name: Name,
    /// Time that the culprit took, in nanoseconds.
    pub total_ns: u64,
}

/// Sums by name.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// Number of exits, and their nanoseconds, by reason.
    reasons: BTreeMap<Name, (u64, u64)>,
    culprits: BTreeMap<(Share, Name), u64>,
}

impl Named {
    /// Returns whether no count of `frame` is smaller than in the previous frame, and every culprit
    /// has a share that a host can take.
    pub(super) fn fits(&self, frame: &HostFrame, before: Option<&HostFrame>) -> bool {
        let mut culprits = frame.culprits.iter();
        let mut reasons = frame.reasons.iter();
        culprits.all(|now| {
            let then = before.and_then(|before| same_culprit(now, before));
            now.share.is_of_exits() && then.is_none_or(|then| then.dur_ns <= now.dur_ns)
        }) && reasons.all(|now| {
            let then = before.and_then(|before| same_reason(now, before));
            then.is_none_or(|then| then.exits <= now.exits && then.dur_ns <= now.dur_ns)
        })
    }

    /// Adds the difference between `frame` and the previous frame.
    pub(super) fn count(&mut self, frame: &HostFrame, before: Option<&HostFrame>) {
        for now in &frame.reasons {
            let then = match before.map(|before| (same_reason(now, before), &before.reasons)) {
                None => (0, 0),
                Some((Some(then), _)) => (then.exits, then.dur_ns),
                Some((None, listed)) if listed.len() < frame.reasons.len() => (0, 0),
                Some((None, listed)) => {
                    let least_ns = listed.iter().map(|then| then.dur_ns).min();
                    // The previous number of exits with this name is unknown.
                    (now.exits, least_ns.unwrap_or(0))
                }
            };
            if let Some(sum) = entry(&mut self.reasons, &now.name) {
                sum.0 = sum.0.saturating_add(now.exits.saturating_sub(then.0));
                sum.1 = sum.1.saturating_add(now.dur_ns.saturating_sub(then.1));
            }
        }
        for now in &frame.culprits {
            let then_ns = match before.map(|before| (same_culprit(now, before), &before.culprits)) {
                None => 0,
                Some((Some(then), _)) => then.dur_ns,
                Some((None, listed)) if listed.len() < frame.culprits.len() => 0,
                Some((None, listed)) => listed.iter().map(|then| then.dur_ns).min().unwrap_or(0),
            };
            if let Some(sum) = entry(&mut self.culprits, &(now.share, now.name.clone())) {
                *sum = sum.saturating_add(now.dur_ns.saturating_sub(then_ns));
            }
        }
    }

    /// Returns the reasons and the culprits of the run, the largest first. A list is `None` if the
    /// host does not report it at this detail. Names without exits or time in this run are left
    /// out.
    pub(super) fn reported(
        &self,
        detail: FeedDetail,
    ) -> (Option<Vec<ReportedReason>>, Option<Vec<ReportedCulprit>>) {
        let reasons = (detail >= FeedDetail::Reasons).then(|| {
            let of_run = self.reasons.iter().filter(|(_, (exits, _))| *exits > 0);
            let reported = of_run.map(|(name, &(exits, total_ns))| ReportedReason {
                name: name.clone(),
                exits,
                total_ns,
            });
            let mut reported: Vec<ReportedReason> = reported.collect();
            reported.sort_by_key(|reason| std::cmp::Reverse((reason.total_ns, reason.exits)));
            reported
        });
        let culprits = (detail >= FeedDetail::Full).then(|| {
            let of_run = self.culprits.iter().filter(|(_, ns)| **ns > 0);
            let reported = of_run.map(|((share, name), &total_ns)| ReportedCulprit {
                share: *share,
                name: name.clone(),
                total_ns,
            });
            let mut reported: Vec<ReportedCulprit> = reported.collect();
            reported.sort_by_key(|culprit| std::cmp::Reverse(culprit.total_ns));
            reported
        });
        (reasons, culprits)
    }
}

fn same_reason<'a>(now: &HostReason, before: &'a HostFrame) -> Option<&'a HostReason> {
    before.reasons.iter().find(|then| then.name == now.name)
}

fn same_culprit<'a>(now: &HostCulprit, before: &'a HostFrame) -> Option<&'a HostCulprit> {
    let mut culprits = before.culprits.iter();
    culprits.find(|then| (then.share, &then.name) == (now.share, &now.name))
}

/// Returns the sum of this name; `None` if the name is new and there are already too many names.
fn entry<'a, K: Ord + Clone, V: Default>(
    sums: &'a mut BTreeMap<K, V>,
    name: &K,
) -> Option<&'a mut V> {
    if sums.len() >= KEPT && !sums.contains_key(name) {
        return None;
    }
    Some(sums.entry(name.clone()).or_default())
}
