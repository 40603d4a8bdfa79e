//! The names a host gives: reasons of exits, and who took their time. Its lists are cut to the
//! largest: a name that was not in the list before had, at most, what the least of that list
//! had, if the list was full.

use std::collections::BTreeMap;

use serde::Serialize;
use vmnoise_events::{FeedDetail, HostCulprit, HostFrame, HostReason, Name, Share};

/// Different names kept; a host that gives more is not believed to have so many.
const KEPT: usize = 1024;

/// All exits for one reason, by the host's word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReportedReason {
    /// The reason.
    pub name: Name,
    /// How many.
    pub exits: u64,
    /// How long, together, halts not counted.
    pub total_ns: u64,
}

/// Somebody on the host, by the host's word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReportedCulprit {
    /// What kind of time it took.
    pub share: Share,
    /// Who.
    pub name: Name,
    /// How much.
    pub total_ns: u64,
}

/// Sums by name.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// Exits and nanoseconds.
    reasons: BTreeMap<Name, (u64, u64)>,
    culprits: BTreeMap<(Share, Name), u64>,
}

impl Named {
    /// Whether no name of `frame` counts less than in the frame before, and every culprit had
    /// time that a host can take.
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

    /// Adds what `frame` counts beyond the one before.
    pub(super) fn count(&mut self, frame: &HostFrame, before: Option<&HostFrame>) {
        for now in &frame.reasons {
            let then = match before.map(|before| (same_reason(now, before), &before.reasons)) {
                None => (0, 0),
                Some((Some(then), _)) => (then.exits, then.dur_ns),
                Some((None, listed)) if listed.len() < frame.reasons.len() => (0, 0),
                Some((None, listed)) => {
                    let least_ns = listed.iter().map(|then| then.dur_ns).min();
                    // How many exits that had is not known.
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

    /// Those that a host of this openness tells, the largest first; without those that had
    /// nothing in this run.
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

/// The sum of this name; `None` where it is one too many.
fn entry<'a, K: Ord + Clone, V: Default>(
    sums: &'a mut BTreeMap<K, V>,
    name: &K,
) -> Option<&'a mut V> {
    if sums.len() >= KEPT && !sums.contains_key(name) {
        return None;
    }
    Some(sums.entry(name.clone()).or_default())
}
