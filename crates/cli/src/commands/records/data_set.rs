//! Reads the runs of a data set.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::Result;
use vmnoise_console::say;
use vmnoise_console::status::UsageError;
use vmnoise_events::coverage::{Coverage, CpuCoverage, LostRecords, RunEnd};
use vmnoise_events::{MeasuringCommand, Policy};
use vmnoise_export::{
    GapRows, StoredCpu, StoredCpus, StoredFacts, StoredGap, StoredPart, StoredRun, runs,
};
use vmnoise_predict::{CpuRecord, RecordCulprit};
use vmnoise_render::recorded::{Origin, ReadRecording, RecordedCpu};

use super::together::together;
use super::{refuse_run, refuse_unseen};

/// Reads the runs of a data set. Leaves out runs that no prediction can use, and reports them.
///
/// # Errors
/// If a run cannot be read, if two runs of a host overlap and cannot be combined, or if no run is
/// left.
pub(super) fn read(folder: &Path) -> Result<Vec<ReadRecording>> {
    let mut refused: Vec<anyhow::Error> = Vec::new();
    let mut read: Vec<ReadRecording> = Vec::new();
    for stored in runs(folder)? {
        match read_run(&stored) {
            Ok(run) => read.push(run),
            Err(error) if error.is::<UsageError>() => refused.push(error),
            Err(error) => return Err(error),
        }
    }
    if read.is_empty()
        && let Some(error) = refused.pop()
    {
        return Err(error);
    }
    for error in refused {
        say::say(format_args!("left out: {error:#}"));
    }
    together(read)
}

fn read_run(stored: &StoredRun) -> Result<ReadRecording> {
    let name = say::name_of(&stored.folder);
    let facts = stored.facts()?;
    refuse_run(&name, facts.workload, facts.pauses)?;
    let mut gatherer = Gatherer::default();
    stored.each_gap(&mut |it| match it {
        GapRows::Gap(gap) => gatherer.begin(gap),
        GapRows::Part(part) => gatherer.add(&part),
    })?;
    gatherer.settle();
    let cpus = stored.cpus()?;
    let recorded = ReadRecording {
        origin: origin(stored, &facts, &cpus),
        coverage: coverage(&facts, &cpus),
        cpus: gatherer.finish(&cpus.reported),
        file: name,
        of_data_set: true,
    };
    refuse_unseen(&recorded)?;
    Ok(recorded)
}

/// Returns the coverage of the run, as far as the data set stores it.
fn coverage(facts: &StoredFacts, cpus: &StoredCpus) -> Coverage {
    let reported = cpus.reported.iter().map(|it| of_cpu(it, facts.workload));
    let silent = cpus.silent.iter().copied().map(CpuCoverage::of);
    let of_old = Coverage {
        policy: Some(facts.policy.unwrap_or(Policy::Other(0))),
        threshold_ns: facts.threshold_ns,
        cpus: reported.chain(silent).collect(),
        end: match facts.complete {
            true => RunEnd::InOrder,
            false => RunEnd::CutOff,
        },
        lost: LostRecords {
            gaps: facts.lost_gaps,
            names: facts.lost_witnesses,
        },
        more_taken_than_measured: takes_more_than_measured(&cpus.reported),
        unstored: facts.coverage.is_none(),
        ..Coverage::of_workload(facts.workload)
    };
    match facts.coverage {
        Some(stored) => Coverage {
            end: stored.end,
            planned_ns: stored.planned_ns,
            clock: stored.clock,
            more_taken_than_measured: stored.is_damaged,
            ..of_old
        },
        None => of_old,
    }
}

/// Returns whether the gaps of all CPUs add up to more than the measured time.
fn takes_more_than_measured(cpus: &[StoredCpu]) -> bool {
    let sum = |of: fn(&StoredCpu) -> u64| cpus.iter().map(of).fold(0, u64::saturating_add);
    sum(|cpu| cpu.noise_ns) > sum(|cpu| cpu.runtime_ns)
}

fn of_cpu(cpu: &StoredCpu, workload: MeasuringCommand) -> CpuCoverage {
    let (from_ns, to_ns) = cpu.measured_mono_ns;
    CpuCoverage {
        window_mono_ns: Some(cpu.measured_mono_ns),
        unplaced_ns: match workload {
            // A thread that sleeps observes nothing, but has no gaps while it sleeps.
            MeasuringCommand::Observed => 0,
            _ => to_ns.saturating_sub(from_ns).saturating_sub(cpu.runtime_ns),
        },
        ..CpuCoverage::of(cpu.cpu)
    }
}

fn origin(stored: &StoredRun, facts: &StoredFacts, cpus: &StoredCpus) -> Origin {
    let reported = cpus.reported.iter().map(|it| it.cpu);
    let mut numbers: Vec<u32> = reported.chain(cpus.silent.iter().copied()).collect();
    numbers.sort_unstable();
    Origin {
        tool_version: facts.tool_version.clone(),
        workload: facts.workload,
        started_at: facts.started.to_string(),
        host: Some(stored.host.clone()),
        kernel: facts.kernel.clone(),
        hypervisor: facts.hypervisor.clone(),
        cpus: numbers,
    }
}

/// Collects gaps and their parts.
#[derive(Default)]
struct Gatherer {
    cpus: BTreeMap<u32, Gathered>,
    /// Gap whose parts are being read.
    gap: Option<StoredGap>,
    parts: Vec<(u32, u64)>,
    /// Buffer for the share and the culprit's name of a part.
    name: String,
}

/// Record of one CPU, and the number of each of its culprits, by share and name.
struct Gathered {
    record: CpuRecord,
    numbers: HashMap<String, u32>,
}

impl Gathered {
    fn of(cpu: u32) -> Gathered {
        Gathered {
            record: CpuRecord::new(cpu),
            numbers: HashMap::new(),
        }
    }
}

impl Gatherer {
    fn begin(&mut self, gap: StoredGap) {
        self.settle();
        self.gap = Some(gap);
    }

    fn add(&mut self, part: &StoredPart<'_>) {
        let Some(gap) = self.gap else {
            return;
        };
        let of_cpu = self.cpus.entry(gap.cpu);
        let Gathered { record, numbers } = of_cpu.or_insert_with(|| Gathered::of(gap.cpu));
        let share = part.share.name();
        self.name.clear();
        self.name.push_str(share);
        part.put_name(&mut self.name);
        let number = match numbers.get(&self.name) {
            Some(number) => *number,
            None => {
                let name = part.source.map(|_| self.name[share.len()..].to_owned());
                let number = record.culprit(RecordCulprit {
                    share: part.share,
                    name,
                });
                numbers.insert(self.name.clone(), number);
                number
            }
        };
        self.parts.push((number, part.ns));
    }

    fn settle(&mut self) {
        if let Some(gap) = self.gap.take() {
            let of_cpu = self.cpus.entry(gap.cpu);
            let Gathered { record, .. } = of_cpu.or_insert_with(|| Gathered::of(gap.cpu));
            record.push(gap.start_mono_ns, gap.dur_ns, self.parts.drain(..));
        }
    }

    fn finish(mut self, cpus: &[StoredCpu]) -> Vec<RecordedCpu> {
        let cpus = cpus.iter().map(|cpu| {
            let gathered = self.cpus.remove(&cpu.cpu);
            let mut record = gathered.map_or_else(|| CpuRecord::new(cpu.cpu), |it| it.record);
            let (from_ns, to_ns) = cpu.measured_mono_ns;
            record.measured(from_ns, to_ns);
            let looked_ns = to_ns.saturating_sub(from_ns);
            RecordedCpu {
                unseen_ns: looked_ns.saturating_sub(cpu.runtime_ns),
                incomplete_gaps: cpu.incomplete_gaps,
                record,
            }
        });
        cpus.collect()
    }
}

#[cfg(test)]
mod tests {
    use vmnoise_events::coverage::{BlindSpot, Hidden, Question};

    use super::*;

    /// Returns the facts of a run that an old version exported.
    fn old_facts() -> StoredFacts {
        StoredFacts {
            tool_version: "0.1.0".to_owned(),
            workload: MeasuringCommand::Osnoise,
            started: jiff::Timestamp::UNIX_EPOCH,
            rank: None,
            kernel: "6.12.9".to_owned(),
            hypervisor: None,
            threshold_ns: 1_000,
            pauses: false,
            policy: None,
            complete: true,
            lost_gaps: 0,
            lost_witnesses: 0,
            coverage: None,
        }
    }

    /// Returns the blind spots of such a run, whose gaps took `noise_ns` of 10 ns.
    fn hidden(noise_ns: u64) -> Vec<Hidden> {
        let cpu = StoredCpu {
            cpu: 1,
            measured_mono_ns: (0, 10),
            runtime_ns: 10,
            gaps: 1,
            noise_ns,
            max_gap_ns: Some(noise_ns),
            incomplete_gaps: None,
        };
        let cpus = StoredCpus {
            reported: vec![cpu],
            silent: Vec::new(),
        };
        let spots = coverage(&old_facts(), &cpus).blind_spots(Question::Taken);
        spots.iter().map(BlindSpot::hidden).cloned().collect()
    }

    #[test]
    fn a_run_that_an_old_version_exported_decides_nothing() {
        assert_eq!(hidden(10), [Hidden::NotStored]);
        assert_eq!(hidden(11), [Hidden::Damaged, Hidden::NotStored]);
    }
}
