//! Suspects: culprits for which the prediction is repeated without their time.

use std::collections::HashMap;

use crate::record::{CpuRecord, RecordCulprit};

/// Number of suspects to choose by total time, and number to choose by the time in one gap.
const OF_EACH: usize = 3;

/// A culprit on one or more hosts, and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspect {
    /// The culprit. A thread has no number here, because the number differs between hosts.
    pub culprit: RecordCulprit,
    /// Total time that the culprit took, in nanoseconds.
    pub total_ns: u64,
    /// Largest time that the culprit took in one gap, in nanoseconds.
    pub most_ns: u64,
    /// Number of gaps in which the culprit took time.
    pub gaps: u64,
}

/// Returns the culprits with the largest total time, and the culprits with the largest time in one
/// gap. A rare long gap adds little to the total, but many ranks wait for it.
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
