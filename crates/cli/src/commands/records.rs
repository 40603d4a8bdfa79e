//! Recordings of gaps as predictions take them: of each CPU when it was taken away, and by whom.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use anyhow::Result;
use vmnoise_events::{LossKind, RunFacts, Share, SourceId, Workload};
use vmnoise_explain::{CpuSummary, Explainer, Interval, Losses, Summary};
use vmnoise_predict::{Culprit, Record};

use super::replay::Recording;
use crate::output::recorded::{Limits, Recorded, RecordedCpu};
use crate::progress;
use crate::say;
use crate::status::UsageError;

/// What may have been a gap when it was lost.
const OF_GAPS: [LossKind; 3] = [
    LossKind::MailboxFull,
    LossKind::Undecodable,
    LossKind::Unrecorded,
];

/// No more of a span than this may have gone by unseen: what was taken then is in no gap.
const UNSEEN_AT_MOST: f64 = 0.05;

/// Reads each of these for what was taken from its CPUs.
///
/// # Errors
/// If one cannot be read, or is of a run that did not look at its CPUs all the time.
pub fn read_all(paths: &[PathBuf]) -> Result<Vec<Recorded>> {
    for path in paths {
        progress::expect(path, 1);
    }
    paths.iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> Result<Recorded> {
    let mut recording = Recording::open(path)?;
    let facts = recording.facts.clone();
    refuse_gapless(path, &facts)?;
    let mut explainer = Explainer::new(&facts);
    let mut gatherer = Gatherer::default();
    recording.each(|event| {
        explainer.push(event, &mut |gap| gatherer.certain.add(gap));
        gatherer.settle(&|id| explainer.source_name(id));
        Ok(())
    })?;
    explainer.run_out(&mut |gap| gatherer.certain.add(gap));
    gatherer.settle(&|id| explainer.source_name(id));
    let summary = explainer.finish();
    recording.report_ending()?;
    let recorded = Recorded {
        file: say::name_of(path),
        limits: limits(&facts, &summary),
        facts,
        cpus: gatherer.finish(&summary),
    };
    refuse_unseen(&recorded)?;
    Ok(recorded)
}

/// Refuses runs that tell of no gaps, and such that look but now and then.
///
/// # Errors
/// What is wrong with it, and what to do.
pub fn refuse_gapless(path: &Path, facts: &RunFacts) -> Result<()> {
    let why = match facts.workload {
        Workload::Exits | Workload::Timerlat => format!(
            "is of `vmnoise {}`, which has no gaps: record with `vmnoise osnoise` or `microvm`",
            facts.workload.command()
        ),
        _ if facts.options.pauses() => {
            "is of a run that paused in each period, and what was taken then is not in it: record \
             without `--runtime`"
                .into()
        }
        _ => return Ok(()),
    };
    Err(UsageError(format!("{} {why}", say::name_of(path))).into())
}

fn refuse_unseen(recorded: &Recorded) -> Result<()> {
    let file = &recorded.file;
    if recorded.cpus.is_empty() {
        return Err(UsageError(format!(
            "{file} does not say how long any CPU was looked at: record for longer"
        ))
        .into());
    }
    for RecordedCpu {
        record, unseen_ns, ..
    } in &recorded.cpus
    {
        let unseen = *unseen_ns as f64 / record.span_ns().max(1) as f64;
        if unseen > UNSEEN_AT_MOST {
            return Err(UsageError(format!(
                "{file}: for {:.1} % of its time nobody looked at CPU {}, and what was taken then is \
                 in no gap: record a workload that never sleeps, with a higher `--threshold` if \
                 gaps are many",
                100.0 * unseen,
                record.cpu
            ))
            .into());
        }
    }
    Ok(())
}

fn limits(facts: &RunFacts, summary: &Summary) -> Limits {
    let lost = |losses: &Losses, is_of_gap: bool| -> u64 {
        let kinds = losses.iter();
        let kinds = kinds.filter(|(kind, _)| OF_GAPS.contains(kind) == is_of_gap);
        kinds.fold(0, |sum, (_, count)| count.saturating_add(sum))
    };
    Limits {
        threshold_ns: facts.options.threshold_ns,
        lost_gaps: lost(&summary.losses, true),
        lost_witnesses: lost(&summary.losses, false).saturating_add(summary.late_events),
        complete: summary.complete && summary.tsc_went_back_at_ns.is_none(),
    }
}

/// Who took time, by the numbers of a stream.
type Who = (Share, Option<SourceId>);

/// Gaps that have become certain and whose culprits have no names yet: a watermark's.
#[derive(Debug, Default)]
struct Certain {
    /// Each with how many parts follow those of the one before.
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

/// What is known of one CPU, and the number of each culprit in it.
#[derive(Debug)]
struct Gathered {
    record: Record,
    numbers: HashMap<Who, u32>,
}

impl Gatherer {
    /// Names who took the gaps that are certain.
    fn settle<'n>(&mut self, name: &dyn Fn(SourceId) -> &'n str) {
        let Certain { gaps, parts } = &mut self.certain;
        let mut parts = parts.drain(..);
        let mut numbered = Vec::new();
        for (cpu, begin_ns, length_ns, count) in gaps.drain(..) {
            let Gathered { record, numbers } = self.cpus.entry(cpu).or_insert_with(|| Gathered {
                record: Record::new(cpu),
                numbers: HashMap::new(),
            });
            let parts = parts.by_ref().take(count).map(|(who, ns)| {
                let (share, source) = who;
                let number = *numbers.entry(who).or_insert_with(|| {
                    record.culprit(Culprit {
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
            let mut record = gathered.map_or_else(|| Record::new(cpu.cpu), |it| it.record);
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
