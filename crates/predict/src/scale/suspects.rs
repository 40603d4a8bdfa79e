//! Who is tried: the prediction is made again as if they had taken nothing.

use std::collections::HashMap;

use crate::record::{Culprit, Record};

/// So many that took most, and as many that took most at once.
const OF_EACH: usize = 3;

/// Somebody who took time on some host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspect {
    /// Who; a thread whatever its number, which each host gives anew.
    pub culprit: Culprit,
    /// All that they took, nanoseconds.
    pub total_ns: u64,
    /// The most they took in one gap, nanoseconds.
    pub most_ns: u64,
    /// In how many gaps they had part.
    pub gaps: u64,
}

/// Those who took most, and those who took most at once: a long gap that is rare takes little, and is what
/// many ranks wait for.
pub(super) fn of<'a>(records: impl Iterator<Item = &'a Record>) -> Vec<Suspect> {
    let mut all: HashMap<Culprit, Suspect> = HashMap::new();
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
    let at_once: Vec<Culprit> = suspects
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
