//! The recordings, put together by CPU.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::Result;
use vmnoise_events::{Share, Workload};
use vmnoise_predict::supply::MeasuredSupply;
use vmnoise_predict::{Culprit, HadBy, Record};
use wildmatch::WildMatch;

use super::{latency, usage};
use crate::args::ScheduleArguments;
use crate::commands::records::read_all;
use crate::commands::replay::Recording;
use crate::output::recorded::Recorded;
use crate::output::schedule::{CpuSupply, Row, WorstWindow};
use crate::say;

/// What was read.
pub(super) struct Supplies {
    recorded: Vec<Recorded>,
    /// The latest wake-up by CPU.
    latest_ns: BTreeMap<u32, u64>,
    /// Of which the function is wanted.
    cpus: BTreeSet<u32>,
}

impl Supplies {
    pub(super) fn read(arguments: &ScheduleArguments) -> Result<Supplies> {
        let mut of_gaps: Vec<PathBuf> = Vec::new();
        let mut latest_ns = BTreeMap::new();
        for path in &arguments.recordings {
            if Recording::open(path)?.facts.workload != Workload::Timerlat {
                of_gaps.push(path.clone());
                continue;
            }
            for (cpu, ns) in latency::latest_ns(path)? {
                let known_ns = latest_ns.entry(cpu).or_insert(ns);
                *known_ns = ns.max(*known_ns);
            }
        }
        if of_gaps.is_empty() {
            return Err(usage(format!(
                "{} is of `vmnoise timerlat`, which does not say what was taken while tasks ran: name a recording of \
                 `osnoise` or `microvm` of the same CPUs beside it",
                say::name_of(&arguments.recordings[0])
            )));
        }
        let recorded = read_all(&of_gaps)?;
        let all = recorded.iter().flat_map(|it| &it.cpus);
        let all: BTreeSet<u32> = all.map(|it| it.record.cpu).collect();
        let cpus = match arguments.cpu {
            Some(cpu) if !all.contains(&cpu) => {
                let listed: Vec<String> = all.iter().map(u32::to_string).collect();
                return Err(usage(format!(
                    "no recording has CPU {cpu}: they have CPU {}",
                    listed.join(",")
                )));
            }
            Some(cpu) => BTreeSet::from([cpu]),
            None => all,
        };
        Ok(Supplies {
            recorded,
            latest_ns,
            cpus,
        })
    }

    /// The recordings of gaps.
    pub(super) fn recorded(&self) -> &[Recorded] {
        &self.recorded
    }

    /// Each CPU, without those who are called so.
    pub(super) fn cpus(&self, without: &[String]) -> Vec<CpuSupply<'_>> {
        let patterns: Vec<WildMatch> = without.iter().map(|it| WildMatch::new(it)).collect();
        let cpus = self.cpus.iter();
        cpus.map(|cpu| self.cpu(*cpu, &patterns)).collect()
    }

    fn cpu(&self, cpu: u32, without: &[WildMatch]) -> CpuSupply<'_> {
        let has = |it: &&Recorded| it.cpus.iter().any(|it| it.record.cpu == cpu);
        let of: Vec<&Recorded> = self.recorded.iter().filter(has).collect();
        let records: Vec<&Record> = of
            .iter()
            .flat_map(|it| &it.cpus)
            .map(|it| &it.record)
            .filter(|it| it.cpu == cpu)
            .collect();
        let counts = |culprit: &Culprit| !without.iter().any(|it| is_called(culprit, it));
        let runs = records.iter().map(|record| match without.is_empty() {
            true => record.taken(),
            false => record.taken_by(counts),
        });
        let supply = MeasuredSupply::new(runs.collect());
        let drawn = supply.drawn();
        let shares = shares(&records, counts, &drawn);
        let rows = drawn
            .iter()
            .enumerate()
            .map(|(nth, (length_ns, left_ns))| Row {
                length_ns: *length_ns,
                left_ns: *left_ns,
                shares_ns: shares.iter().map(|(_, ns)| ns[nth]).collect(),
            });
        let of_cpu = of
            .iter()
            .flat_map(|it| &it.cpus)
            .filter(|it| it.record.cpu == cpu);
        CpuSupply {
            cpu,
            files: of.iter().map(|it| &*it.file).collect(),
            rows: rows.collect(),
            shares: shares.iter().map(|(share, _)| *share).collect(),
            threshold_ns: of
                .iter()
                .map(|it| it.limits.threshold_ns)
                .max()
                .unwrap_or(0),
            lost_gaps: of.iter().map(|it| it.limits.lost_gaps).sum(),
            is_complete: of.iter().all(|it| it.limits.complete),
            unseen_ns: of_cpu.map(|it| it.unseen_ns).sum(),
            blocking_ns: self.latest_ns.get(&cpu).copied(),
            judged: Vec::new(),
            supply,
            records,
        }
    }
}

/// The most that each share took in a window of each length, as far as it took any.
fn shares(
    records: &[&Record],
    counts: impl Fn(&Culprit) -> bool,
    drawn: &[(u64, u64)],
) -> Vec<(Share, Vec<u64>)> {
    let of_share = |share: Share| {
        let is = |it: &Culprit| it.share == share && counts(it);
        let has = records.iter().any(|it| it.culprits().iter().any(is));
        has.then(|| {
            let taken = records.iter().map(|it| it.taken_by(is)).collect();
            let left: Vec<(u64, u64)> = MeasuredSupply::new(taken).drawn();
            // Both are of the same runs, so they have the same lengths.
            let taken = left
                .iter()
                .zip(drawn)
                .map(|((length_ns, left_ns), _)| length_ns - left_ns);
            (share, taken.collect())
        })
    };
    Share::ALL.into_iter().filter_map(of_share).collect()
}

/// By its name, with or without the number behind it, or by its share.
fn is_called(culprit: &Culprit, pattern: &WildMatch) -> bool {
    let of_name = |name: &str| {
        let short = name.rsplit_once(':').map(|(short, _)| short);
        pattern.matches(name) || short.is_some_and(|short| pattern.matches(short))
    };
    pattern.matches(culprit.share.name()) || culprit.name.as_deref().is_some_and(of_name)
}

impl CpuSupply<'_> {
    /// The window of this length that left least, and who had what of it.
    pub(crate) fn worst(&self, length_ns: u64) -> Option<WorstWindow> {
        let worst = self.supply.worst(length_ns)?;
        let record = self
            .records
            .iter()
            .find(|it| it.contains(worst.begin_ns, length_ns))?;
        let mut by = record.taken_in(worst.begin_ns, length_ns);
        by.truncate(3);
        let name = |by: HadBy| match by {
            HadBy::Culprit(who) => record.culprits()[who as usize].to_string(),
            HadBy::Cut(most) => format!(
                "a gap that the window cuts, most of it {}",
                record.culprits()[most as usize]
            ),
        };
        Some(WorstWindow {
            at_ns: worst.begin_ns - record.from_ns(),
            taken_ns: worst.taken_ns,
            by: by.into_iter().map(|(who, ns)| (name(who), ns)).collect(),
        })
    }
}
