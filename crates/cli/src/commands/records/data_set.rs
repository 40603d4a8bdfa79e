//! Runs of a data set, by host.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::Result;
use vmnoise_console::say;
use vmnoise_console::status::UsageError;
use vmnoise_events::Policy;
use vmnoise_events::coverage::{Coverage, CpuCoverage, LostRecords, RunEnd};
use vmnoise_export::{GapRows, StoredCpu, StoredFacts, StoredGap, StoredPart, StoredRun, runs};
use vmnoise_predict::{CpuRecord, RecordCulprit};
use vmnoise_render::recorded::{Origin, ReadRecording, RecordedCpu};

use super::together::together;
use super::{refuse_run, refuse_unseen};

/// Reads the runs of a data set. Leaves out and reports runs that no prediction can use.
///
/// # Errors
/// If a run cannot be read, if two runs of a host overlap badly, or if no run is left.
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
        cpus: gatherer.finish(&cpus),
        file: name,
        of_data_set: true,
    };
    refuse_unseen(&recorded)?;
    Ok(recorded)
}

/// Returns what the run could see, as far as a data set has it.
fn coverage(facts: &StoredFacts, cpus: &[StoredCpu]) -> Coverage {
    let of_cpu = |cpu: &StoredCpu| {
        let (from_ns, to_ns) = cpu.measured_mono_ns;
        CpuCoverage {
            window_mono_ns: Some(cpu.measured_mono_ns),
            unplaced_ns: to_ns.saturating_sub(from_ns).saturating_sub(cpu.runtime_ns),
            ..CpuCoverage::of(cpu.cpu)
        }
    };
    Coverage {
        policy: Some(facts.policy.unwrap_or(Policy::Other(0))),
        threshold_ns: facts.threshold_ns,
        cpus: cpus.iter().map(of_cpu).collect(),
        end: match facts.complete {
            true => RunEnd::InOrder,
            false => RunEnd::CutOff,
        },
        lost: LostRecords {
            gaps: facts.lost_gaps,
            names: facts.lost_witnesses,
        },
        ..Coverage::of_workload(facts.workload)
    }
}

fn origin(stored: &StoredRun, facts: &StoredFacts, cpus: &[StoredCpu]) -> Origin {
    Origin {
        tool_version: facts.tool_version.clone(),
        workload: facts.workload,
        started_at: facts.started.to_string(),
        host: Some(stored.host.clone()),
        kernel: facts.kernel.clone(),
        hypervisor: facts.hypervisor.clone(),
        cpus: cpus.iter().map(|it| it.cpu).collect(),
    }
}

/// Collects gaps and their parts.
#[derive(Default)]
struct Gatherer {
    cpus: BTreeMap<u32, Gathered>,
    /// Gap whose parts are being read.
    gap: Option<StoredGap>,
    parts: Vec<(u32, u64)>,
    /// Buffer for the name of a part's culprit.
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
