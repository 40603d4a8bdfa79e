//! Time that was taken from one CPU, gap by gap.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use vmnoise_events::Share;

use crate::lengths::Lengths;
use crate::taken::TakenTime;
use crate::unseen::{Stretches, Unseen};

/// Culprit: a share, and a name if it is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordCulprit {
    /// Share of its time.
    pub share: Share,
    /// Name; `None` without a name (steal, residual).
    pub name: Option<String>,
}

impl RecordCulprit {
    /// Returns the culprit without the number after its name: `stress-ng:4711` is `stress-ng` on
    /// each host, but has another number there.
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

/// Time of a culprit in a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TakenBy {
    /// Total time, in nanoseconds.
    pub total_ns: u64,
    /// Most time in one gap, in nanoseconds.
    pub most_ns: u64,
    /// Number of gaps with such time.
    pub gaps: u64,
}

/// Run of one CPU, stored by columns, because a run may have ten million gaps.
#[derive(Debug, Clone)]
pub struct CpuRecord {
    /// Number of the CPU, or of the vCPU.
    pub cpu: u32,
    from_ns: u64,
    to_ns: u64,
    begins_ns: Vec<u64>,
    lengths_ns: Vec<u64>,
    /// End of the parts of each gap in `who` and `part_ns`.
    part_ends: Vec<u32>,
    who: Vec<u32>,
    part_ns: Lengths,
    culprits: Vec<RecordCulprit>,
    places: HashMap<RecordCulprit, u32>,
    stretches: Stretches,
}

impl CpuRecord {
    /// Returns an empty run of this CPU.
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

    /// Returns the number of a culprit. New culprits get the next number.
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

    /// Adds the next gap, CLOCK_MONOTONIC in nanoseconds, with the time of each culprit in it.
    /// These times add up to no more than the gap's length. If the gap begins before the last one
    /// ends, only its part after that end is kept.
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

    /// Sets the begin and the end of the measured time, CLOCK_MONOTONIC in nanoseconds. A gap that
    /// reaches beyond them extends it.
    pub fn measured(&mut self, from_ns: u64, to_ns: u64) {
        self.from_ns = self
            .begins_ns
            .first()
            .map_or(from_ns, |it| from_ns.min(*it));
        self.to_ns = to_ns.max(self.last_end_ns()).max(self.from_ns);
    }

    /// Adds an interval of the run with its unobserved time, in nanoseconds of CLOCK_MONOTONIC. If
    /// the interval begins before the last one ends, it is shortened to begin there.
    pub fn unseen_in(&mut self, from_ns: u64, to_ns: u64, unseen_ns: u64) {
        self.stretches.push(from_ns, to_ns, unseen_ns);
    }

    /// Returns the unobserved time, `in_all_ns` in total. Time that belongs to none of the
    /// intervals may be anywhere in the run.
    pub fn unseen(&self, in_all_ns: u64) -> Unseen<'_> {
        self.stretches.within(self.from_ns, self.to_ns, in_all_ns)
    }

    fn last_end_ns(&self) -> u64 {
        let last = self.begins_ns.last().zip(self.lengths_ns.last());
        last.map_or(0, |(begin_ns, length_ns)| begin_ns + length_ns)
    }

    /// Returns the length of the measured time, in nanoseconds.
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

    /// Returns all culprits, by their numbers.
    pub fn culprits(&self) -> &[RecordCulprit] {
        &self.culprits
    }

    /// Returns the time of each culprit, in nanoseconds, by their numbers.
    pub fn totals_ns(&self) -> Vec<u64> {
        let mut totals_ns = vec![0_u64; self.culprits.len()];
        for (who, ns) in self.who.iter().zip(self.part_ns.iter()) {
            totals_ns[*who as usize] += ns;
        }
        totals_ns
    }

    /// Returns the culprits in a window with their times, in nanoseconds; the largest first.
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

    /// Returns the time of each culprit in the run, by their numbers.
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

    /// Returns all taken time.
    pub fn taken(&self) -> TakenTime<'_> {
        self.with_taken(None)
    }

    /// Returns the time of some culprits, as if the others had taken nothing. Where in a gap this
    /// time was is unknown.
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

/// Owner of time in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HadBy {
    /// Culprit with this number.
    Culprit(u32),
    /// Several culprits of a gap that the window cuts. Which parts of the gap they had is unknown;
    /// this one had most of the gap.
    Cut(u32),
}

impl HadBy {
    /// Returns the culprit that had all of the time, or most of it.
    pub fn who(self) -> u32 {
        match self {
            HadBy::Culprit(who) | HadBy::Cut(who) => who,
        }
    }
}
