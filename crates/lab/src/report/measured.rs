//! Results of a scenario, and verdicts on the conclusions of its paper.

use anyhow::Result;

use super::words::brief;
use crate::accel::Accel;
use crate::emulation;
use crate::figures::RepetitionFigures;
use crate::folder::{CellEnd, Folder};
use crate::machine::BootedMachine;
use crate::scenario::{Conclusion, Scenario, Statistic};
use crate::verdict::{ConclusionVerdict, PaperVerdict, judge};

/// A scenario with the results of its cells.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) scenario: Scenario,
    /// Results of the cells, in the order of the scenario.
    pub(super) cells: Vec<CellEnd>,
}

impl Measured {
    pub(super) fn of(folder: &Folder) -> Result<Measured> {
        let cells = folder.scenario.cells();
        let ended = cells.iter().map(|cell| folder.ended(&cell.name()));
        let ended = ended.collect::<Result<Vec<_>>>()?;
        Ok(Measured {
            scenario: folder.scenario.clone(),
            cells: ended.into_iter().flatten().collect(),
        })
    }

    pub(super) fn failure(&self, cell: &str) -> Option<&str> {
        let mut cells = self.cells.iter();
        cells.find(|ended| ended.cell == cell)?.failure.as_deref()
    }

    pub(super) fn accel(&self, cell: &str) -> Option<Accel> {
        let mut cells = self.cells.iter();
        Some(cells.find(|ended| ended.cell == cell)?.accel)
    }

    /// Returns the machine of a cell; `None` in emulation, or if the cell has no result.
    pub(super) fn machine(&self, cell: &str) -> Option<&BootedMachine> {
        let mut cells = self.cells.iter();
        cells.find(|ended| ended.cell == cell)?.machine.as_ref()
    }

    /// Returns whether the report has figures of noise. Only cells with a polling task have such
    /// figures.
    pub(super) fn has_noise(&self) -> bool {
        let mut all = self.cells.iter().flat_map(|ended| &ended.repetitions);
        all.any(|it| it.statistic(Statistic::Noise).is_some())
    }

    pub(super) fn repetitions(&self, cell: &str) -> &[RepetitionFigures] {
        let mut cells = self.cells.iter();
        let found = cells.find(|ended| ended.cell == cell);
        found.map_or(&[], |ended| &ended.repetitions)
    }
}

/// Judges a conclusion by the cells that it names.
pub(super) fn judged(measured: &Measured, conclusion: &Conclusion) -> ConclusionVerdict {
    let of = measured.repetitions(&conclusion.of);
    let by = conclusion.by.as_deref();
    let cells = measured.scenario.cells();
    let clock = |name: &str| {
        let mut cells = cells.iter();
        let cell = cells.find(|cell| cell.name() == name);
        cell.map(emulation::ns_an_instruction)
    };
    let accel = |name: &str| measured.accel(name);
    let of_accel = accel(&conclusion.of);
    let by_accel = by.map_or(of_accel, accel);
    let here = of_accel.unwrap_or(Accel::Tcg);
    let mut judged = judge(conclusion, here, of, by.map(|by| measured.repetitions(by)));
    let of_machine = measured.machine(&conclusion.of);
    let by_machine = by.map_or(of_machine, |by| measured.machine(by));
    let machines = of_machine.zip(by_machine);
    let is_of_another_machine = machines.is_some_and(|(of, by)| !of.can_be(by));
    let xens = [of_machine, by_machine].map(|it| it.and_then(|it| it.xen.as_ref()));
    let shares_cpu = xens.iter().flatten().any(|xen| xen.has_one_cpu());
    let is_of_another_clock = by.is_some_and(|by| clock(by) != clock(&conclusion.of));
    let why = match (of_accel, by_accel) {
        (Some(of), Some(by)) if of.is_real() != by.is_real() => {
            "one of the cells was emulated, the other was not"
        }
        (Some(Accel::Tcg), _) if is_of_another_clock => {
            "an instruction takes 4 ns in one of the cells and 1 ns in the other"
        }
        _ if is_of_another_machine => "the cells ran on machines whose CPUs are of two models",
        _ if shares_cpu && conclusion.not_in_emulation.is_some() => {
            "Dom0 and the guest shared the only CPU of their machine, as in emulation"
        }
        _ => return judged,
    };
    if judged.quotients.is_some() {
        judged.verdict = PaperVerdict::CannotBeJudged(why.to_owned());
    }
    judged
}

/// Returns the reason why a cell has no figures.
pub(super) fn why_not(measured: &Measured, cell: &str) -> String {
    let scenario = &measured.scenario;
    let mut cells = scenario.cells().into_iter();
    let refusal = cells
        .find(|it| it.name() == cell)
        // On a host, the reason for a refusal depends on the system that was booted.
        .filter(|_| measured.cells.iter().all(|it| it.accel == Accel::Tcg))
        .and_then(|it| emulation::refusal(&it, &scenario.measure));
    match (refusal, measured.failure(cell)) {
        (Some(why), _) => format!("not run: {why}"),
        (None, Some(why)) => format!("failed: {}", brief(why)),
        (None, None) => "not run".to_owned(),
    }
}
