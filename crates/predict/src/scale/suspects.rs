//! Suspects: culprits for which the prediction is repeated as if they had taken nothing.

use std::collections::HashMap;

use crate::record::{CpuRecord, RecordCulprit};

/// Number of suspects that took most in all, and of those that took most in one gap.
const OF_EACH: usize = 3;

/// Culprit on some host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspect {
    /// Culprit; a thread without its number, which differs between hosts.
    pub culprit: RecordCulprit,
    /// Total time, in nanoseconds.
    pub total_ns: u64,
    /// Most time in one gap, in nanoseconds.
    pub most_ns: u64,
    /// Number of gaps in which they had part.
    pub gaps: u64,
}

/// Returns the culprits that took most in all, and those that took most in one gap. A rare long gap
/// takes little in all, but many ranks wait for it.
pub(super) fn of<'a>(records: impl Iterator<Item = &'a CpuRecord>) -> Vec<Suspect> {
    let mut all: HashMap<RecordCulprit, Suspect> = HashMap::new();
    for record in records {
        for (culprit, taken) in record.culprits().iter().zip(record.by_culprit()) {
            let culprit = culprit.whatever_number();
            let suspect = all.entry(culprit).or_insert_with_key(|culprit| Suspect {
                culprit: culprit.clone(),
                total_ns: 0,
                most_ns: 0,
                gaps: 0,
            });
            suspect.total_ns += taken.total_ns;
            suspect.most_ns = suspect.most_ns.max(taken.most_ns);
            suspect.gaps += taken.gaps;
        }
    }
    let mut suspects: Vec<Suspect> = all.into_values().collect();
    suspects.sort_by(|a, b| (b.most_ns, &a.culprit).cmp(&(a.most_ns, &b.culprit)));
    let at_once: Vec<RecordCulprit> = suspects
        .iter()
        .take(OF_EACH)
        .map(|it| it.culprit.clone())
        .collect();
    suspects.sort_by(|a, b| (b.total_ns, &a.culprit).cmp(&(a.total_ns, &b.culprit)));
    let is_tried =
        |place: usize, suspect: &Suspect| place < OF_EACH || at_once.contains(&suspect.culprit);
    let tried = suspects.into_iter().enumerate();
    let tried = tried.filter(|(place, suspect)| is_tried(*place, suspect));
    tried.map(|(_, suspect)| suspect).collect()
}
