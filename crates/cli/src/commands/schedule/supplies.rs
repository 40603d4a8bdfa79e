//! The recordings, combined by CPU.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::Result;
use vmnoise_events::coverage::{BlindSpot, Coverage, Hidden, HiddenKind, Question};
use vmnoise_events::{MeasuringCommand, Share};
use vmnoise_predict::supply::{MeasuredSupply, WorstOfRuns};
use vmnoise_predict::{CpuRecord, HadBy, RecordCulprit};
use wildmatch::WildMatch;

use super::latency::Latencies;
use super::{latency, usage};
use crate::args::ScheduleArguments;
use crate::commands::records::{read_all, refuse_two_at_once};
use crate::commands::replay::ReplayedRecording;
use crate::output::recorded::{Origin, ReadRecording};
use crate::output::schedule::{CpuSupply, WindowRow, WorstWindow};
use crate::say;
use crate::units::human;

/// All recordings of a command line.
pub(super) struct Supplies {
    recorded: Vec<ReadRecording>,
    /// Largest wake-up latency of each CPU on this machine, in nanoseconds.
    latest_ns: BTreeMap<u32, u64>,
    /// Coverage of the recordings of wake-ups.
    of_latencies: Vec<Coverage>,
    /// CPUs to compute.
    cpus: BTreeSet<u32>,
}

impl Supplies {
    pub(super) fn read(arguments: &ScheduleArguments) -> Result<Supplies> {
        let mut of_gaps: Vec<PathBuf> = Vec::new();
        let mut timers = Vec::new();
        for path in &arguments.recordings {
            // A data set may have runs of both kinds. Only its runs of gaps are used.
            if path.is_dir()
                || ReplayedRecording::open(path)?.facts.workload != MeasuringCommand::Timerlat
            {
                of_gaps.push(path.clone());
                continue;
            }
            timers.push((say::name_of(path), latency::read(path)?));
        }
        if of_gaps.is_empty() {
            return Err(usage(format!(
                "{} is of `vmnoise timerlat`, which does not measure the time taken from running tasks: add a recording \
                 of `osnoise` or `microvm` of the same CPUs",
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
        refuse_timers_of_other_cpus(&timers, &cpus)?;
        let mut supplies = Supplies {
            recorded,
            latest_ns: BTreeMap::new(),
            of_latencies: Vec::new(),
            cpus,
        };
        for (file, latencies) in timers {
            supplies.add(file, latencies);
        }
        supplies.refuse_strangers(&arguments.without)?;
        Ok(supplies)
    }

    /// Adds the latencies in a file. Latencies of another machine say nothing about this machine,
    /// so only the coverage of the file is added then.
    fn add(&mut self, file: String, mut latencies: Latencies) {
        let is_here = |it: &ReadRecording| is_one_machine(&it.origin, &latencies.origin);
        if self.recorded.iter().all(is_here) {
            for (cpu, ns) in latencies.latest_ns {
                let latest_ns = self.latest_ns.entry(cpu).or_insert(ns);
                *latest_ns = ns.max(*latest_ns);
            }
        } else {
            latencies.coverage.others.push(file);
        }
        self.of_latencies.push(latencies.coverage);
    }

    /// Returns an error if a name in `--without` matches no culprit and no share of the recordings.
    fn refuse_strangers(&self, without: &[String]) -> Result<()> {
        let cpus = self.recorded.iter().flat_map(|it| &it.cpus);
        let records: Vec<&CpuRecord> = cpus.map(|it| &it.record).collect();
        let culprits = || records.iter().flat_map(|it| it.culprits());
        for name in without {
            let pattern = WildMatch::new(name);
            if culprits().any(|it| is_called(it, &pattern)) {
                continue;
            }
            let mut known: Vec<String> = culprits().map(RecordCulprit::to_string).collect();
            known.sort_unstable();
            known.dedup();
            known.truncate(8);
            return Err(usage(format!(
                "no culprit or share `{name}` took any time; write one of these: {}",
                known.join(", ")
            )));
        }
        Ok(())
    }

    /// Returns the CPUs to compute.
    pub(super) fn of_cpus(&self) -> &BTreeSet<u32> {
        &self.cpus
    }

    /// Returns the recordings of gaps.
    pub(super) fn recorded(&self) -> &[ReadRecording] {
        &self.recorded
    }

    /// Returns each CPU, without the time of the culprits and shares in `without`.
    pub(super) fn cpus(&self, without: &[String]) -> Vec<CpuSupply<'_>> {
        let patterns: Vec<WildMatch> = without.iter().map(|it| WildMatch::new(it)).collect();
        let cpus = self.cpus.iter();
        cpus.map(|cpu| self.cpu(*cpu, &patterns)).collect()
    }

    fn cpu(&self, cpu: u32, without: &[WildMatch]) -> CpuSupply<'_> {
        let has = |it: &&ReadRecording| it.cpus.iter().any(|it| it.record.cpu == cpu);
        let of: Vec<&ReadRecording> = self.recorded.iter().filter(has).collect();
        let of_cpu = || {
            let cpus = of.iter().flat_map(|it| &it.cpus);
            cpus.filter(|it| it.record.cpu == cpu)
        };
        let records: Vec<&CpuRecord> = of_cpu().map(|it| &it.record).collect();
        let thresholds = || of.iter().map(|it| it.coverage.threshold_ns);
        let of_latencies = self.of_latencies.iter().map(|it| it.on_cpu(cpu));
        let counts = |culprit: &RecordCulprit| !without.iter().any(|it| is_called(culprit, it));
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

/// Refuses recordings of timers if they have wake-ups of none of these CPUs.
fn refuse_timers_of_other_cpus(timers: &[(String, Latencies)], cpus: &BTreeSet<u32>) -> Result<()> {
    let mut late_cpus = timers.iter().flat_map(|(_, it)| it.latest_ns.keys());
    let has_any = late_cpus.any(|cpu| cpus.contains(cpu));
    match timers.first() {
        Some((file, _)) if !has_any => Err(usage(format!(
            "{file} has wake-ups of none of these CPUs: record `timerlat` on the CPU of the tasks"
        ))),
        _ => Ok(()),
    }
}

/// Refuses recordings of different machines, because recordings are combined by CPU number.
fn refuse_what_is_not_one_machine(recorded: &[ReadRecording]) -> Result<()> {
    for (nth, it) in recorded.iter().enumerate() {
        for other in &recorded[..nth] {
            if !is_one_machine(&it.origin, &other.origin) {
                return Err(usage(format!(
                    "{} and {} are of different machines or kernels: run the command for each alone",
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

/// Returns, for each share that took time, the most time that it took in a window of each length.
fn shares(
    records: &[&CpuRecord],
    counts: impl Fn(&RecordCulprit) -> bool,
) -> Vec<(Share, Vec<u64>)> {
    let of_share = |share: Share| {
        let is = |it: &RecordCulprit| it.share == share && counts(it);
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

/// Returns whether the pattern matches the culprit's name, with or without its number, or its
/// share.
fn is_called(culprit: &RecordCulprit, pattern: &WildMatch) -> bool {
    let bare = culprit.whatever_number();
    let names = [culprit.name.as_deref(), bare.name.as_deref()];
    let mut names = names.into_iter().flatten();
    pattern.matches(culprit.share.name()) || names.any(|name| pattern.matches(name))
}

impl CpuSupply<'_> {
    /// Returns the blind spots of this CPU's recordings that matter for this question. For
    /// latencies, the priority of the measuring thread does not matter. Work that delays a task but
    /// not this thread is in the recordings of gaps.
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

    /// Returns the blind spots that hide more taken time than the windows contain. The windows
    /// count unplaced and unmeasured time as taken.
    pub(crate) fn uncounted(&self) -> Vec<BlindSpot> {
        let mut spots = self.blind_spots(Question::Taken);
        spots.retain(|it| {
            let is_unmeasured = matches!(it.hidden(), Hidden::NotMeasured { .. });
            it.hides() != HiddenKind::StatedTime && !is_unmeasured
        });
        spots
    }

    /// Adds a row for each window length of the table.
    pub(super) fn with_rows(self) -> Self {
        let counts =
            |culprit: &RecordCulprit| !self.without.iter().any(|it| is_called(culprit, it));
        let shares = shares(&self.records, counts);
        let drawn = self.supply.drawn();
        let rows = drawn.iter().enumerate();
        let rows = rows.map(|(nth, (length_ns, left_ns))| WindowRow {
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

    /// Returns the window of this length with the least time left, and its culprits.
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
