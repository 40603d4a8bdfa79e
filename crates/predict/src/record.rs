//! Time that culprits took from one CPU, gap by gap.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use vmnoise_events::Share;

use crate::lengths::Lengths;
use crate::taken::TakenTime;
use crate::unseen::{Stretches, Unseen};

/// A culprit: its share of lost time, and its name if known.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordCulprit {
    /// Share to which the time of the culprit belongs.
    pub share: Share,
    /// Name of the culprit; `None` if it has no name (steal time, residual).
    pub name: Option<String>,
}

impl RecordCulprit {
    /// Returns the culprit without the number at the end of its name. The number differs between
    /// hosts: `stress-ng:4711` becomes `stress-ng`.
    pub fn whatever_number(&self) -> RecordCulprit {
        let name = self
            .name
            .as_deref()
            .map(|name| match name.rsplit_once(':') {
                Some((name, number)) if number.parse::<u32>().is_ok() => name,
                _ => name,
            });
        RecordCulprit {
            share: self.share,
            name: name.map(str::to_owned),
        }
    }
}

impl fmt::Display for RecordCulprit {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(to, "{} {name}", self.share.name()),
            None => to.write_str(self.share.name()),
        }
    }
}

/// Time that one culprit took in a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TakenBy {
    /// Total time that the culprit took, in nanoseconds.
    pub total_ns: u64,
    /// Largest time that the culprit took in one gap, in nanoseconds.
    pub most_ns: u64,
    /// Number of gaps in which the culprit took time.
    pub gaps: u64,
}

/// All gaps of one CPU in a run. The data are stored by columns, because a run may have ten million
/// gaps.
#[derive(Debug, Clone)]
pub struct CpuRecord {
    /// Number of the CPU, or of the vCPU if a host recorded.
    pub cpu: u32,
    from_ns: u64,
    to_ns: u64,
    begins_ns: Vec<u64>,
    lengths_ns: Vec<u64>,
    /// For each gap, the index in `who` and `part_ns` after its last part.
    part_ends: Vec<u32>,
    who: Vec<u32>,
    part_ns: Lengths,
    culprits: Vec<RecordCulprit>,
    places: HashMap<RecordCulprit, u32>,
    stretches: Stretches,
}

impl CpuRecord {
    /// Returns a record of this CPU without gaps.
    pub fn new(cpu: u32) -> CpuRecord {
        CpuRecord {
            cpu,
            from_ns: 0,
            to_ns: 0,
            begins_ns: Vec::new(),
            lengths_ns: Vec::new(),
            part_ends: Vec::new(),
            who: Vec::new(),
            part_ns: Lengths::default(),
            culprits: Vec::new(),
            places: HashMap::new(),
            stretches: Stretches::default(),
        }
    }

    /// Returns the number of this culprit in the record. A new culprit gets the next free number.
    ///
    /// # Panics
    /// If there are more than 2^32 culprits.
    pub fn culprit(&mut self, culprit: RecordCulprit) -> u32 {
        if let Some(place) = self.places.get(&culprit) {
            return *place;
        }
        let place = u32::try_from(self.culprits.len()).expect("fewer culprits than a u32 holds");
        self.culprits.push(culprit.clone());
        self.places.insert(culprit, place);
        place
    }

    /// Appends the next gap. `begin_ns` is CLOCK_MONOTONIC. Each element of `parts` is a culprit's
    /// number and the time that it took, in nanoseconds. These times add up to no more than
    /// `length_ns`. If the gap begins before the end of the last gap, only its part after that end
    /// is kept.
    ///
    /// # Panics
    /// If there are more than 2^32 parts.
    pub fn push(&mut self, begin_ns: u64, length_ns: u64, parts: impl Iterator<Item = (u32, u64)>) {
        let last_end_ns = self.last_end_ns();
        let end_ns = begin_ns.saturating_add(length_ns);
        let begin_ns = begin_ns.max(last_end_ns);
        self.begins_ns.push(begin_ns);
        self.lengths_ns.push(end_ns.saturating_sub(begin_ns));
        for (who, ns) in parts {
            self.who.push(who);
            self.part_ns.push(ns);
        }
        let parts = u32::try_from(self.who.len()).expect("fewer parts than a u32 holds");
        self.part_ends.push(parts);
    }

    /// Sets the begin and the end of the measured time, CLOCK_MONOTONIC in nanoseconds. If a gap
    /// begins before or ends after the measured time, the measured time is extended to contain the
    /// gap.
    pub fn measured(&mut self, from_ns: u64, to_ns: u64) {
        self.from_ns = self
            .begins_ns
            .first()
            .map_or(from_ns, |it| from_ns.min(*it));
        self.to_ns = to_ns.max(self.last_end_ns()).max(self.from_ns);
    }

    /// Appends an interval of the run, CLOCK_MONOTONIC in nanoseconds, in which `unseen_ns` were
    /// not observed. If the interval begins before the end of the last interval, it is shortened to
    /// begin at that end.
    pub fn unseen_in(&mut self, from_ns: u64, to_ns: u64, unseen_ns: u64) {
        self.stretches.push(from_ns, to_ns, unseen_ns);
    }

    /// Returns the unobserved time of the run. `in_all_ns` is its total. The part of the total that
    /// exceeds the sum of all intervals may lie anywhere in the run.
    pub fn unseen(&self, in_all_ns: u64) -> Unseen<'_> {
        self.stretches.within(self.from_ns, self.to_ns, in_all_ns)
    }

    fn last_end_ns(&self) -> u64 {
        let last = self.begins_ns.last().zip(self.lengths_ns.last());
        last.map_or(0, |(begin_ns, length_ns)| begin_ns + length_ns)
    }

    /// Returns the duration of the measured time, in nanoseconds.
    pub fn span_ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }

    /// Returns the begin of the measured time, CLOCK_MONOTONIC in nanoseconds.
    pub fn from_ns(&self) -> u64 {
        self.from_ns
    }

    /// Returns the number of gaps.
    pub fn gaps(&self) -> usize {
        self.begins_ns.len()
    }

    /// Returns all culprits. The index of a culprit is its number.
    pub fn culprits(&self) -> &[RecordCulprit] {
        &self.culprits
    }

    /// Returns the total time of each culprit, in nanoseconds. The index is the number of the
    /// culprit.
    pub fn totals_ns(&self) -> Vec<u64> {
        let mut totals_ns = vec![0_u64; self.culprits.len()];
        for (who, ns) in self.who.iter().zip(self.part_ns.iter()) {
            totals_ns[*who as usize] += ns;
        }
        totals_ns
    }

    /// Returns the owners of taken time in a window, each with its time in nanoseconds, largest
    /// first.
    pub fn taken_in(&self, begin_ns: u64, length_ns: u64) -> Vec<(HadBy, u64)> {
        let end_ns = begin_ns.saturating_add(length_ns);
        let first = self.begins_ns.partition_point(|it| *it <= begin_ns);
        let past = self.begins_ns.partition_point(|it| *it < end_ns);
        let mut taken: HashMap<HadBy, u64> = HashMap::new();
        let mut add = |by, ns| *taken.entry(by).or_default() += ns;
        for gap in first.saturating_sub(1)..past {
            let (from_ns, ns) = (self.begins_ns[gap], self.lengths_ns[gap]);
            let inside_ns = end_ns
                .min(from_ns + ns)
                .saturating_sub(begin_ns.max(from_ns));
            let from = gap
                .checked_sub(1)
                .map_or(0, |it| self.part_ends[it] as usize);
            let parts = from..self.part_ends[gap] as usize;
            if parts.len() == 1 {
                add(HadBy::Culprit(self.who[from]), inside_ns);
            } else if inside_ns == ns {
                for part in parts {
                    add(HadBy::Culprit(self.who[part]), self.part_ns.at(part));
                }
            } else if let Some(most) = parts.max_by_key(|part| self.part_ns.at(*part)) {
                add(HadBy::Cut(self.who[most]), inside_ns);
            }
        }
        let mut taken: Vec<_> = taken.into_iter().filter(|(_, ns)| *ns > 0).collect();
        taken.sort_unstable_by_key(|(who, ns)| (std::cmp::Reverse(*ns), *who));
        taken
    }

    /// Returns the time of each culprit in the run. The index is the number of the culprit.
    pub fn by_culprit(&self) -> Vec<TakenBy> {
        let mut by_culprit = vec![TakenBy::default(); self.culprits.len()];
        for (who, ns) in self.who.iter().zip(self.part_ns.iter()) {
            let taken = &mut by_culprit[*who as usize];
            taken.total_ns += ns;
            taken.most_ns = taken.most_ns.max(ns);
            taken.gaps += 1;
        }
        by_culprit
    }

    /// Returns the taken time of all culprits.
    pub fn taken(&self) -> TakenTime<'_> {
        self.with_taken(None)
    }

    /// Returns the time of the culprits for which `is_counted` returns `true`, as if all other
    /// culprits had taken nothing. The position of this time within a gap is unknown.
    pub fn taken_by(&self, is_counted: impl Fn(&RecordCulprit) -> bool) -> TakenTime<'_> {
        let counted: Vec<bool> = self.culprits.iter().map(is_counted).collect();
        let mut from = 0;
        let taken_ns = self.part_ends.iter().zip(&self.lengths_ns);
        let taken_ns = taken_ns.map(|(end, length_ns)| {
            let parts = from..*end as usize;
            from = parts.end;
            let counted = parts.filter(|part| counted[self.who[*part] as usize]);
            let taken_ns: u64 = counted.map(|part| self.part_ns.at(part)).sum();
            taken_ns.min(*length_ns)
        });
        self.with_taken(Some(taken_ns.collect()))
    }

    fn with_taken(&self, taken_ns: Option<Vec<u64>>) -> TakenTime<'_> {
        let gaps = (&*self.begins_ns, &*self.lengths_ns);
        TakenTime::new((self.from_ns, self.to_ns), gaps, taken_ns.map(Arc::new))
    }
}

/// Owner of taken time in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HadBy {
    /// The culprit with this number.
    Culprit(u32),
    /// One of several culprits of a gap that an edge of the window cuts. It is unknown which part
    /// of the gap each of them had. The number is that of the culprit with most time in the whole
    /// gap.
    Cut(u32),
}

impl HadBy {
    /// Returns the number of the culprit that had all of the time, or that had most of the cut gap.
    pub fn who(self) -> u32 {
        match self {
            HadBy::Culprit(who) | HadBy::Cut(who) => who,
        }
    }
}
