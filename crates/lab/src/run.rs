//! Runs cells in parallel. The result of each cell is stored when it has finished, so that an
//! interrupted run can be continued.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use vmnoise_testbed::binary;

use crate::figures::RepetitionFigures;
use crate::folder::{CellEnd, Folder};
use crate::measuring::{self, Brought, Job};
use crate::place::CellPlace;
use crate::plan::PlannedCell;

const CONSOLE: &str = "console.txt";

/// Event of a run, for messages to the user.
#[derive(Debug)]
pub enum RunStep<'a> {
    /// The cell with this name already has a result, which is kept.
    Kept(&'a str),
    /// The cell with this name cannot run here. The second text is the reason.
    Refused(&'a str, &'a str),
    /// The cell with this name begins.
    Begins(&'a str),
    /// A cell has ended. The number is that of the cells that have not ended yet.
    Ended(&'a CellEnd, usize),
}

/// Runs the cells that have no result yet. When `asked_to_end` becomes true, no further cell
/// begins. Running cells then end, and their results are dropped.
///
/// Returns the number of failed cells.
///
/// # Errors
/// If results cannot be written. A failed cell is stored as failed, and does not stop the other
/// cells.
pub fn run(
    folder: &Folder,
    planned: Vec<PlannedCell>,
    place: &CellPlace,
    seed: u64,
    asked_to_end: &Arc<AtomicBool>,
    report: &(dyn Fn(RunStep<'_>) + Sync),
) -> Result<usize> {
    let version = version()?;
    let mut waiting = VecDeque::new();
    for PlannedCell { cell, refusal, .. } in planned {
        let name = cell.name();
        let ended = folder.ended(&name)?;
        match (refusal, ended) {
            (Some(why), _) => report(RunStep::Refused(&name, &why)),
            (None, Some(ended))
                if ended.failure.is_none()
                    && ended.accel == place.accel()
                    && ended.seed == seed
                    && ended.version == version =>
            {
                report(RunStep::Kept(&name));
            }
            (None, _) => waiting.push_back(cell),
        }
    }
    let left = waiting.len();
    let waiting = Mutex::new((waiting, left));
    let failed = AtomicUsize::new(0);
    let work = || -> Result<()> {
        while !asked_to_end.load(Ordering::Relaxed) {
            let Some(cell) = lock(&waiting).0.pop_front() else {
                return Ok(());
            };
            report(RunStep::Begins(&cell.name()));
            let job = Job {
                cell: &cell,
                measure: &folder.scenario.measure,
                seed,
                asked_to_end,
            };
            let ended = measured(folder, place, &version, job)?;
            // An interrupted cell has neither succeeded nor failed, and its files may be
            // incomplete.
            if !asked_to_end.load(Ordering::Relaxed) {
                folder.end(&ended)?;
                failed.fetch_add(usize::from(ended.failure.is_some()), Ordering::Relaxed);
                let left = {
                    let mut waiting = lock(&waiting);
                    waiting.1 -= 1;
                    waiting.1
                };
                report(RunStep::Ended(&ended, left));
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..place.jobs()).map(|_| scope.spawn(work)).collect();
        let mut outcome = Ok(());
        for worker in workers {
            let its = worker.join();
            outcome = outcome.and(its.unwrap_or_else(|_| anyhow::bail!("a worker panicked")));
        }
        outcome
    })?;
    Ok(failed.into_inner())
}

fn lock<T>(it: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the version of vmnoise with a digest of its binary, because two builds of one version
/// may measure differently.
fn version() -> Result<String> {
    let path = binary();
    let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
    let digest = Sha256::digest(bytes);
    let digest: String = digest[..6]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(format!("{} {digest}", env!("CARGO_PKG_VERSION")))
}

fn measured(folder: &Folder, place: &CellPlace, version: &str, job: Job<'_>) -> Result<CellEnd> {
    let begun = Instant::now();
    let name = job.cell.name();
    let mut ended = CellEnd {
        cell: name.clone(),
        accel: place.accel(),
        machine: place.machine(),
        seed: job.seed,
        version: version.to_owned(),
        took_ms: 0,
        commands: Vec::new(),
        repetitions: Vec::new(),
        failure: None,
    };
    match place.run(job) {
        Ok(brought) => {
            let Brought {
                mut recordings,
                console,
                commands,
            } = brought;
            ended.commands = commands;
            recordings.push((CONSOLE.to_owned(), console.into_bytes()));
            let kept = folder.keep(&name, &recordings)?;
            match repetitions(&kept, job) {
                Ok(mut repetitions) => {
                    let caveat = place.caveat(job.cell).map(str::to_owned);
                    for figures in &mut repetitions {
                        figures.caveats.extend(caveat.clone());
                    }
                    ended.repetitions = repetitions;
                }
                Err(error) => ended.failure = Some(format!("{error:#}")),
            }
        }
        Err(error) => ended.failure = Some(format!("{error:#}")),
    }
    ended.took_ms = u64::try_from(begun.elapsed().as_millis())?;
    Ok(ended)
}

fn repetitions(kept: &Path, job: Job<'_>) -> Result<Vec<RepetitionFigures>> {
    let Job { cell, measure, .. } = job;
    let host = Some(kept.join(measuring::HOST)).filter(|host| host.is_file());
    let repetitions = measuring::files(cell, measure);
    let figures = repetitions
        .map(|file| RepetitionFigures::of(&kept.join(file), host.as_deref(), cell.workload));
    figures.collect()
}
