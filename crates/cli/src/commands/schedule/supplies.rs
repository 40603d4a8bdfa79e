//! The recordings, put together by CPU.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::Result;
use vmnoise_events::coverage::{BlindSpot, Coverage, Question};
use vmnoise_events::{Share, Workload};
use vmnoise_predict::supply::{MeasuredSupply, WorstOfRuns};
use vmnoise_predict::{Culprit, HadBy, Record};
use wildmatch::WildMatch;

use super::{latency, usage};
use crate::args::ScheduleArguments;
use crate::commands::records::{read_all, refuse_two_at_once};
use crate::commands::replay::Recording;
use crate::output::recorded::{Origin, Recorded};
use crate::output::schedule::{CpuSupply, Row, WorstWindow};
use crate::say;
use crate::units::human;

/// What was read.
pub(super) struct Supplies {
    recorded: Vec<Recorded>,
    /// The latest wake-up by CPU.
    latest_ns: BTreeMap<u32, u64>,
    /// What the recordings of these could see.
    of_latencies: Vec<Coverage>,
    /// Of which the function is wanted.
    cpus: BTreeSet<u32>,
}

impl Supplies {
    pub(super) fn read(arguments: &ScheduleArguments) -> Result<Supplies> {
        let mut of_gaps: Vec<PathBuf> = Vec::new();
        let mut latest_ns = BTreeMap::new();
        let mut timers = Vec::new();
        for path in &arguments.recordings {
            // A data set has runs of either kind, and those of gaps are taken.
            if path.is_dir() || Recording::open(path)?.facts.workload != Workload::Timerlat {
                of_gaps.push(path.clone());
                continue;
            }
            let latest = latency::read(path)?;
            for (cpu, ns) in &latest.latest_ns {
                let known_ns = latest_ns.entry(*cpu).or_insert(*ns);
                *known_ns = (*ns).max(*known_ns);
            }
            timers.push((path, latest));
        }
        if of_gaps.is_empty() {
            return Err(usage(format!(
                "{} is of `vmnoise timerlat`, which does not say what was taken while tasks ran: name a recording of \
                 `osnoise` or `microvm` of the same CPUs beside it",
                say::name_of(&arguments.recordings[0])
            )));
        }
        let recorded = read_all(&of_gaps)?;
        refuse_what_is_not_one_machine(&recorded)?;
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
        if let Some((path, _)) = timers.first()
            && !cpus.iter().any(|cpu| latest_ns.contains_key(cpu))
        {
            return Err(usage(format!(
                "{} has wake-ups of none of these CPUs: record `timerlat` on the CPU of the tasks",
                say::name_of(path)
            )));
        }
        let of_latencies = timers.into_iter().map(|(path, mut latest)| {
            if !recorded
                .iter()
                .all(|it| is_one_machine(&it.origin, &latest.origin))
            {
                latest.coverage.others.push(say::name_of(path));
            }
            latest.coverage
        });
        let supplies = Supplies {
            of_latencies: of_latencies.collect(),
            recorded,
            latest_ns,
            cpus,
        };
        supplies.refuse_strangers(&arguments.without)?;
        Ok(supplies)
    }

    /// Who is to be left out has taken something.
    fn refuse_strangers(&self, without: &[String]) -> Result<()> {
        let cpus = self.recorded.iter().flat_map(|it| &it.cpus);
        let records: Vec<&Record> = cpus.map(|it| &it.record).collect();
        let culprits = || records.iter().flat_map(|it| it.culprits());
        for name in without {
            let pattern = WildMatch::new(name);
            if culprits().any(|it| is_called(it, &pattern)) {
                continue;
            }
            let mut known: Vec<String> = culprits().map(Culprit::to_string).collect();
            known.sort_unstable();
            known.dedup();
            known.truncate(8);
            return Err(usage(format!(
                "nobody called `{name}` took anything; there are {}",
                known.join(", ")
            )));
        }
        Ok(())
    }

    /// Of which CPUs the function is wanted.
    pub(super) fn of_cpus(&self) -> &BTreeSet<u32> {
        &self.cpus
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
        let of_cpu = || {
            let cpus = of.iter().flat_map(|it| &it.cpus);
            cpus.filter(|it| it.record.cpu == cpu)
        };
        let records: Vec<&Record> = of_cpu().map(|it| &it.record).collect();
        let thresholds = || of.iter().map(|it| it.coverage.threshold_ns);
        let of_latencies = self.of_latencies.iter().map(|it| it.on_cpu(cpu));
        let counts = |culprit: &Culprit| !without.iter().any(|it| is_called(culprit, it));
        let runs = records.iter().map(|record| match without.is_empty() {
            true => record.taken(),
            false => record.taken_by(counts),
        });
        let unseen = of_cpu().map(|it| it.record.unseen(it.unseen_ns));
        let supply = MeasuredSupply::with_unseen(runs.collect(), unseen.collect());
        CpuSupply {
            cpu,
            files: of.iter().map(|it| &*it.file).collect(),
            rows: Vec::new(),
            shares: Vec::new(),
            thresholds_ns: (
                thresholds().min().unwrap_or(0),
                thresholds().max().unwrap_or(0),
            ),
            of_gaps: of.iter().map(|it| it.coverage.on_cpu(cpu)).collect(),
            of_latencies: of_latencies.collect(),
            unseen_ns: of_cpu().map(|it| it.unseen_ns).sum(),
            blocking_ns: self.latest_ns.get(&cpu).copied(),
            judged: Vec::new(),
            without: without.to_vec(),
            supply,
            records,
        }
    }
}

/// Recordings are taken together by the numbers of their CPUs.
fn refuse_what_is_not_one_machine(recorded: &[Recorded]) -> Result<()> {
    for (nth, it) in recorded.iter().enumerate() {
        for other in &recorded[..nth] {
            if !is_one_machine(&it.origin, &other.origin) {
                return Err(usage(format!(
                    "{} and {} are of different machines or kernels: ask about each by itself",
                    other.file, it.file
                )));
            }
            refuse_two_at_once(other, it)?;
        }
    }
    Ok(())
}

fn is_one_machine(one: &Origin, other: &Origin) -> bool {
    (&one.host, &one.kernel) == (&other.host, &other.kernel)
}

/// The most that each share took in a window of each length, as far as it took any.
fn shares(records: &[&Record], counts: impl Fn(&Culprit) -> bool) -> Vec<(Share, Vec<u64>)> {
    let of_share = |share: Share| {
        let is = |it: &Culprit| it.share == share && counts(it);
        let has = records.iter().any(|it| it.culprits().iter().any(is));
        has.then(|| {
            let taken = records.iter().map(|it| it.taken_by(is)).collect();
            let left: Vec<(u64, u64)> = MeasuredSupply::new(taken).drawn();
            let taken = left.iter().map(|(length_ns, left_ns)| length_ns - left_ns);
            (share, taken.collect())
        })
    };
    Share::ALL.into_iter().filter_map(of_share).collect()
}

/// By its name, with or without the number behind it, or by its share.
fn is_called(culprit: &Culprit, pattern: &WildMatch) -> bool {
    let bare = culprit.whatever_number();
    let names = [culprit.name.as_deref(), bare.name.as_deref()];
    let mut names = names.into_iter().flatten();
    pattern.matches(culprit.share.name()) || names.any(|name| pattern.matches(name))
}

impl CpuSupply<'_> {
    /// What its recordings could not see that the answer depends on. What comes between a task and the thread whose timers
    /// were measured is in the gaps of the others.
    pub(crate) fn blind_spots(&self, question: Question) -> Vec<BlindSpot> {
        let of_gaps = self.of_gaps.iter().flat_map(|it| it.blind_spots(question));
        let latest = Question::Longest(f64::INFINITY);
        let of_latencies = self.of_latencies.iter();
        let of_latencies = of_latencies.flat_map(|it| it.blind_spots(latest));
        let mut spots: Vec<BlindSpot> = Vec::new();
        for spot in of_gaps.chain(of_latencies) {
            if !spots.contains(&spot) {
                spots.push(spot);
            }
        }
        spots
    }

    /// With a row for each length that is drawn.
    pub(super) fn with_rows(self) -> Self {
        let counts = |culprit: &Culprit| !self.without.iter().any(|it| is_called(culprit, it));
        let shares = shares(&self.records, counts);
        let drawn = self.supply.drawn();
        let rows = drawn.iter().enumerate();
        let rows = rows.map(|(nth, (length_ns, left_ns))| Row {
            length_ns: *length_ns,
            left_ns: *left_ns,
            unseen_ns: self.supply.unseen_at_most_ns(*length_ns),
            shares_ns: shares.iter().map(|(_, ns)| ns[nth]).collect(),
        });
        CpuSupply {
            rows: rows.collect(),
            shares: shares.iter().map(|(share, _)| *share).collect(),
            ..self
        }
    }

    /// The window of this length that left least, and who had what of it.
    pub(crate) fn worst(&self, length_ns: u64) -> Option<WorstWindow> {
        let WorstOfRuns {
            run,
            window: worst,
            unseen_ns,
        } = self.supply.worst(length_ns)?;
        let record = self.records[run];
        let counts = |by: &HadBy| {
            let culprit = &record.culprits()[by.who() as usize];
            !self.without.iter().any(|it| is_called(culprit, it))
        };
        let mut by = record.taken_in(worst.begin_ns, length_ns);
        by.retain(|(by, _)| counts(by));
        by.truncate(3);
        let name = |by: HadBy, ns| match by {
            HadBy::Culprit(who) => format!("{} {ns}", record.culprits()[who as usize]),
            HadBy::Cut(most) => {
                format!("{ns} of a gap, mostly {}", record.culprits()[most as usize])
            }
        };
        Some(WorstWindow {
            at_ns: worst.begin_ns - record.from_ns(),
            file: match self.files.len() {
                1 => None,
                _ => Some(self.files[run].to_owned()),
            },
            taken_ns: worst.taken_ns,
            unseen_ns,
            by: by
                .into_iter()
                .map(|(who, ns)| name(who, human(ns)))
                .collect(),
        })
    }
}
