//! Reads the hosts of a data set for the page.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Result;
use vmnoise_console::say;
use vmnoise_events::{MeasuringCommand, Share};
use vmnoise_export::{DataSetError, GapRows, StoredPart, StoredRun, runs};
use vmnoise_report::{FleetCpu, FleetPage, FleetRun, FleetTaker};

use super::refuse;

/// Reads a data set. Runs that cannot be read are listed on the page as refused.
///
/// # Errors
/// If it is no data set, or has no readable run with gaps.
pub(super) fn read(folder: &Path) -> Result<FleetPage> {
    let mut page = FleetPage {
        name: say::name_of(folder),
        runs: Vec::new(),
        gapless_runs: 0,
        refused: Vec::new(),
        tool_version: env!("CARGO_PKG_VERSION").into(),
    };
    for stored in runs(folder)? {
        match read_run(&stored) {
            Ok(Some(run)) => page.runs.push(run),
            Ok(None) => page.gapless_runs += 1,
            Err(error) => refuse(&mut page.refused, &stored.folder, &error.into()),
        }
    }
    if page.runs.is_empty() {
        anyhow::bail!(
            "{} has no run with gaps that can be shown: no page was written",
            page.name
        );
    }
    Ok(page)
}

/// Reads a run; `None` if it has no gaps.
fn read_run(stored: &StoredRun) -> Result<Option<FleetRun>, DataSetError> {
    let facts = stored.facts()?;
    if matches!(
        facts.workload,
        MeasuringCommand::Exits | MeasuringCommand::Timerlat
    ) {
        return Ok(None);
    }
    let mut takers = Takers::default();
    stored.each_gap(&mut |it| match it {
        GapRows::Gap(_) => takers.gap += 1,
        GapRows::Part(part) => takers.add(&part),
    })?;
    let cpus = stored.cpus()?.reported.into_iter().map(|cpu| {
        let (from_ns, to_ns) = cpu.measured_mono_ns;
        FleetCpu {
            cpu: cpu.cpu,
            span_ns: to_ns.saturating_sub(from_ns),
            runtime_ns: cpu.runtime_ns,
            gaps: cpu.gaps,
            noise_ns: cpu.noise_ns,
            max_gap_ns: cpu.max_gap_ns,
        }
    });
    Ok(Some(FleetRun {
        host: stored.host.clone(),
        rank: facts.rank,
        workload: facts.workload,
        threshold_ns: facts.threshold_ns,
        pauses: facts.pauses,
        complete: facts.complete,
        lost_gaps: facts.lost_gaps,
        lost_witnesses: facts.lost_witnesses,
        cpus: cpus.collect(),
        takers: takers.finish(),
    }))
}

/// Culprits of a run.
#[derive(Default)]
struct Takers {
    /// Culprits by name and share; an unknown culprit has an empty name.
    by_name: HashMap<String, HashMap<Share, Counted>>,
    /// Number of the current gap, from 1.
    gap: u64,
}

struct Counted {
    taker: FleetTaker,
    /// Number of the last gap that has a part of this culprit, and the culprit's time in this gap.
    /// The time is a sum, because several threads may share a name.
    in_gap: (u64, u64),
}

impl Takers {
    fn add(&mut self, part: &StoredPart<'_>) {
        let name = part.source.unwrap_or_default();
        if !self.by_name.contains_key(name) {
            self.by_name.insert(name.to_owned(), HashMap::new());
        }
        let Some(of_name) = self.by_name.get_mut(name) else {
            return;
        };
        let counted = of_name.entry(part.share).or_insert_with(|| Counted {
            taker: FleetTaker {
                share: part.share,
                name: part.source.map(str::to_owned),
                gaps: 0,
                total_ns: 0,
                most_ns: 0,
            },
            in_gap: (0, 0),
        });
        if counted.in_gap.0 != self.gap {
            counted.in_gap = (self.gap, 0);
            counted.taker.gaps += 1;
        }
        let in_gap_ns = counted.in_gap.1.saturating_add(part.ns);
        counted.in_gap.1 = in_gap_ns;
        counted.taker.total_ns = counted.taker.total_ns.saturating_add(part.ns);
        counted.taker.most_ns = counted.taker.most_ns.max(in_gap_ns);
    }

    fn finish(self) -> Vec<FleetTaker> {
        let counted = self.by_name.into_values().flat_map(HashMap::into_values);
        counted.map(|it| it.taker).collect()
    }
}
