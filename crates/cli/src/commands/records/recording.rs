//! Reads one recording, with the culprits of its gaps.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::Result;
use vmnoise_console::say;
use vmnoise_events::{Event, Share, SourceId};
use vmnoise_explain::{CpuSummary, Explainer, Interval, Summary};
use vmnoise_predict::{CpuRecord, RecordCulprit};
use vmnoise_render::recorded::{Origin, ReadRecording, RecordedCpu};

use super::{refuse_gapless, refuse_unseen};
use crate::commands::replay::ReplayedRecording;

/// Reads a recording.
///
/// # Errors
/// If it cannot be read, or is of a run that did not measure its CPUs all the time.
pub(super) fn read(path: &Path) -> Result<ReadRecording> {
    let mut recording = ReplayedRecording::open(path)?;
    let facts = recording.facts.clone();
    refuse_gapless(path, &facts)?;
    let mut explainer = Explainer::new(&facts);
    let mut gatherer = Gatherer::default();
    recording.each(|event| {
        explainer.push(event, &mut |gap| gatherer.certain.add(gap));
        gatherer.settle(&|id| explainer.source_name(id));
        if let Event::Tally(tally) = event {
            of(&mut gatherer.cpus, tally.cpu).look(explainer.looked(tally));
        }
        Ok(())
    })?;
    explainer.run_out(&mut |gap| gatherer.certain.add(gap));
    gatherer.settle(&|id| explainer.source_name(id));
    let summary = explainer.finish();
    recording.report_ending()?;
    let recorded = ReadRecording {
        file: say::name_of(path),
        of_data_set: false,
        coverage: summary.coverage.clone(),
        origin: Origin::from(&facts),
        cpus: gatherer.finish(&summary),
    };
    refuse_unseen(&recorded)?;
    Ok(recorded)
}

/// Culprit: its share, and the number of its source in the stream.
type Who = (Share, Option<SourceId>);

/// Gaps that have become certain, and whose culprits are not named yet.
#[derive(Debug, Default)]
struct Certain {
    /// CPU, begin, length and number of parts of each gap. The parts are in `parts`, in the same
    /// order.
    gaps: Vec<(u32, u64, u64, usize)>,
    parts: Vec<(Who, u64)>,
}

impl Certain {
    fn add(&mut self, gap: &Interval) {
        let parts = gap.parts.iter();
        self.parts
            .extend(parts.map(|part| ((part.share, part.source), part.ns)));
        let count = gap.parts.len();
        self.gaps
            .push((gap.cpu, gap.start_mono_ns, gap.dur_ns, count));
    }
}

#[derive(Debug, Default)]
struct Gatherer {
    certain: Certain,
    cpus: BTreeMap<u32, Gathered>,
}

/// Record of one CPU, and the number of each of its culprits.
#[derive(Debug)]
struct Gathered {
    record: CpuRecord,
    numbers: HashMap<Who, u32>,
    /// Time of the CPU's last counters, and the unobserved time until then, both in nanoseconds.
    looked: Option<(u64, u64)>,
}

impl Gathered {
    /// Adds the unobserved time since the last counters. The argument is the result of
    /// [`Explainer::looked`].
    fn look(&mut self, ((first_ns, last_ns), blind_ns): ((u64, u64), u64)) {
        let (from_ns, known_ns) = self.looked.unwrap_or((first_ns, 0));
        let unseen_ns = blind_ns.saturating_sub(known_ns);
        if unseen_ns > 0 {
            self.record.unseen_in(from_ns, last_ns, unseen_ns);
        }
        self.looked = Some((last_ns, blind_ns));
    }
}

/// Returns the record of this CPU. Creates the record if it does not exist.
fn of(cpus: &mut BTreeMap<u32, Gathered>, cpu: u32) -> &mut Gathered {
    cpus.entry(cpu).or_insert_with(|| Gathered {
        record: CpuRecord::new(cpu),
        numbers: HashMap::new(),
        looked: None,
    })
}

impl Gatherer {
    /// Names the culprits of the certain gaps, and moves the gaps into the records.
    fn settle<'n>(&mut self, name: &dyn Fn(SourceId) -> &'n str) {
        let Certain { gaps, parts } = &mut self.certain;
        let mut parts = parts.drain(..);
        let mut numbered = Vec::new();
        for (cpu, begin_ns, length_ns, count) in gaps.drain(..) {
            let Gathered {
                record, numbers, ..
            } = of(&mut self.cpus, cpu);
            let parts = parts.by_ref().take(count).map(|(who, ns)| {
                let (share, source) = who;
                let number = *numbers.entry(who).or_insert_with(|| {
                    record.culprit(RecordCulprit {
                        share,
                        name: source.map(|id| name(id).to_owned()),
                    })
                });
                (number, ns)
            });
            numbered.extend(parts);
            record.push(begin_ns, length_ns, numbered.drain(..));
        }
    }

    fn finish(mut self, summary: &Summary) -> Vec<RecordedCpu> {
        let cpus = summary.cpus.iter().filter_map(|cpu: &CpuSummary| {
            let (from_ns, to_ns) = cpu.measured_mono_ns?;
            let gathered = self.cpus.remove(&cpu.cpu);
            let mut record = gathered.map_or_else(|| CpuRecord::new(cpu.cpu), |it| it.record);
            record.measured(from_ns, to_ns);
            let looked_ns = to_ns.saturating_sub(from_ns);
            Some(RecordedCpu {
                unseen_ns: looked_ns.saturating_sub(cpu.runtime_ns.unwrap_or(0)),
                incomplete_gaps: cpu.incomplete_gaps,
                record,
            })
        });
        cpus.collect()
    }
}
