//! The recordings, combined by CPU.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::Result;
use vmnoise_console::say;
use vmnoise_events::MeasuringCommand;
use vmnoise_events::coverage::Coverage;
use vmnoise_predict::supply::MeasuredSupply;
use vmnoise_predict::{CpuRecord, RecordCulprit};
use vmnoise_render::recorded::{Origin, ReadRecording};
use vmnoise_render::schedule::{CpuSupply, is_called};
use wildmatch::WildMatch;

use super::latency::Latencies;
use super::{latency, usage};
use crate::args::ScheduleArguments;
use crate::commands::records::{read_all, refuse_two_at_once};
use crate::commands::replay::ReplayedRecording;

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

    /// Refuses a name of `--without` that took nothing.
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
