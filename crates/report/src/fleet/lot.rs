//! Runs of one host or one rank, taken together.

use std::collections::{BTreeMap, BTreeSet};

use vmnoise_events::{MeasuringCommand, Share};

use super::FleetRun;
use crate::figures::{part_of, sum};

/// Culprit of lost time: its share, and its name without a number.
pub(crate) type Taker = (Share, Option<String>);

/// Time that a culprit took.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) gaps: u64,
    pub(crate) total_ns: u64,
    pub(crate) most_ns: u64,
    /// Number of hosts or ranks from which the culprit took time.
    pub(crate) lots: u64,
    /// Index of the host or rank from which the culprit took the most time, and this time in
    /// nanoseconds.
    pub(crate) most_of: (usize, u64),
}

/// A host or a rank, with the sums of its runs.
#[derive(Debug, Default)]
pub(crate) struct Lot {
    pub(crate) name: String,
    /// Number of the rank; 0 for a host.
    pub(crate) rank: u64,
    pub(crate) runs: u64,
    /// Workload and threshold (in nanoseconds) of each run.
    pub(crate) looked: BTreeSet<(&'static str, u64)>,
    pub(crate) cpus: BTreeMap<u32, Sums>,
    /// Sums over all CPUs.
    pub(crate) all: Sums,
    pub(crate) pauses: bool,
    pub(crate) incomplete: u64,
    pub(crate) lost_gaps: u64,
    pub(crate) lost_witnesses: u64,
    pub(crate) takers: BTreeMap<Taker, Taken>,
}

/// Sums of one or more CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) span_ns: u64,
    pub(crate) runtime_ns: u64,
    pub(crate) gaps: u64,
    pub(crate) noise_ns: u64,
    pub(crate) max_gap_ns: Option<u64>,
}

impl Sums {
    fn add(&mut self, other: Sums) {
        self.span_ns = sum([self.span_ns, other.span_ns]);
        self.runtime_ns = sum([self.runtime_ns, other.runtime_ns]);
        self.gaps = sum([self.gaps, other.gaps]);
        self.noise_ns = sum([self.noise_ns, other.noise_ns]);
        self.max_gap_ns = self.max_gap_ns.max(other.max_gap_ns);
    }

    /// Returns the lost part of the time, in percent; `None` if no time was observed.
    pub(crate) fn noise_percent(&self) -> Option<f64> {
        (self.runtime_ns > 0).then(|| part_of(self.noise_ns, self.runtime_ns))
    }

    fn unseen_percent(&self) -> f64 {
        part_of(self.span_ns.saturating_sub(self.runtime_ns), self.span_ns)
    }
}

/// Groups runs by the key that `key` returns. Returns one host or rank for each key, in ascending
/// order. Runs without a key are left out.
pub(super) fn of(runs: &[FleetRun], key: impl Fn(&FleetRun) -> Option<(u64, String)>) -> Vec<Lot> {
    let mut lots: BTreeMap<(u64, String), Lot> = BTreeMap::new();
    for run in runs {
        if let Some(key) = key(run) {
            lots.entry(key).or_default().add(run);
        }
    }
    let lots = lots.into_iter();
    lots.map(|((rank, name), lot)| Lot { name, rank, ..lot })
        .collect()
}

impl Lot {
    fn add(&mut self, run: &FleetRun) {
        self.runs += 1;
        self.looked.insert((word(run.workload), run.threshold_ns));
        for cpu in &run.cpus {
            let sums = Sums {
                span_ns: cpu.span_ns,
                runtime_ns: cpu.runtime_ns,
                gaps: cpu.gaps,
                noise_ns: cpu.noise_ns,
                max_gap_ns: cpu.max_gap_ns,
            };
            self.cpus.entry(cpu.cpu).or_default().add(sums);
            self.all.add(sums);
        }
        self.pauses |= run.pauses;
        self.incomplete += u64::from(!run.complete);
        self.lost_gaps = sum([self.lost_gaps, run.lost_gaps]);
        self.lost_witnesses = sum([self.lost_witnesses, run.lost_witnesses]);
        for taker in &run.takers {
            let taken = self.takers.entry((taker.share, taker.name.clone()));
            let taken = taken.or_default();
            taken.gaps = sum([taken.gaps, taker.gaps]);
            taken.total_ns = sum([taken.total_ns, taker.total_ns]);
            taken.most_ns = taken.most_ns.max(taker.most_ns);
        }
    }

    /// Returns the lost part of the time, in percent. `None` if unknown, so that the host or rank
    /// cannot be compared.
    pub(crate) fn noise_percent(&self) -> Option<f64> {
        self.all.noise_percent()
    }

    /// Returns the part of the time that a culprit took, in percent.
    pub(crate) fn taken_percent(&self, taker: &Taker) -> f64 {
        let taken = self.takers.get(taker);
        taken.map_or(0.0, |it| part_of(it.total_ns, self.all.runtime_ns))
    }

    /// Returns the unobserved part of the time, in percent; `None` if the workload paused on
    /// purpose.
    pub(crate) fn unseen_percent(&self) -> Option<f64> {
        (!self.pauses).then(|| self.all.unseen_percent())
    }

    /// Returns the unobserved part of the time of the CPU where this part is largest, in percent.
    /// `None` if the workload paused on purpose.
    pub(crate) fn most_unseen_percent(&self) -> Option<f64> {
        let cpus = self.cpus.values().map(Sums::unseen_percent);
        cpus.max_by(f64::total_cmp).filter(|_| !self.pauses)
    }

    /// Returns the CPU that lost the largest part of its time, and this part in percent.
    pub(crate) fn worst_cpu(&self) -> Option<(u32, f64)> {
        let cpus = self.cpus.iter();
        let cpus = cpus.filter_map(|(cpu, sums)| Some((*cpu, sums.noise_percent()?)));
        cpus.max_by(|one, other| one.1.total_cmp(&other.1).then(other.0.cmp(&one.0)))
    }

    /// Returns the culprit that took the most time, and the time that this culprit took.
    pub(crate) fn most(&self) -> Option<(&Taker, &Taken)> {
        self.takers.iter().max_by_key(|(_, taken)| taken.total_ns)
    }
}

/// Returns the culprits of all hosts or ranks, the largest first.
pub(crate) fn by_taker(lots: &[Lot]) -> Vec<(Taker, Taken)> {
    let mut takers: BTreeMap<&Taker, Taken> = BTreeMap::new();
    for (place, lot) in lots.iter().enumerate() {
        for (taker, of_lot) in &lot.takers {
            let all = takers.entry(taker).or_default();
            all.gaps = sum([all.gaps, of_lot.gaps]);
            all.total_ns = sum([all.total_ns, of_lot.total_ns]);
            all.most_ns = all.most_ns.max(of_lot.most_ns);
            all.lots += 1;
            if of_lot.total_ns > all.most_of.1 {
                all.most_of = (place, of_lot.total_ns);
            }
        }
    }
    let mut takers: Vec<(Taker, Taken)> = takers
        .into_iter()
        .map(|(taker, taken)| (taker.clone(), taken))
        .collect();
    takers.sort_by_key(|(_, taken)| std::cmp::Reverse(taken.total_ns));
    takers
}

/// Returns the command that ran this workload.
const fn word(workload: MeasuringCommand) -> &'static str {
    match workload {
        MeasuringCommand::Observed => "osnoise --pid",
        _ => workload.command(),
    }
}
