//! Reads files with sets of tasks: vmnoise's own format, and models of LiME.

mod lime;
mod own;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use vmnoise_console::say;
use vmnoise_console::status::UsageError;
use vmnoise_predict::schedule::{PeriodicTask, TaskSet};

/// Content of a file of tasks.
#[derive(Debug)]
pub(super) struct Described {
    /// Tasks of the file.
    pub set: TaskSet,
    /// Release of the kernel under which the tasks were observed, if they were observed.
    pub observed_under: Option<String>,
    /// Tasks that may run only on some CPUs: name, and CPUs.
    pub bound_to: Vec<(String, Vec<u32>)>,
    /// Assumptions about the tasks.
    pub notes: Vec<String>,
}

/// Largest size of a file of tasks.
const MOST_BYTES: u64 = 1 << 20;
/// Largest jitter, in periods. A larger jitter would be an endless burst.
const MOST_PERIODS_LATE: u64 = 1_000;
/// Largest number of tasks on a CPU, because each task is compared with all others.
const MOST_TASKS: usize = 64;

/// Reads a file of tasks, one model of LiME, or a folder of them.
///
/// # Errors
/// A sentence that says what is wrong, where, and what is accepted.
pub(super) fn read(path: &Path) -> Result<Described> {
    let described = match path.is_dir() {
        true => lime::set(&models_in(path)?),
        false if lime::is_model(path) => lime::set(&[path.to_owned()]),
        false => own::parse(&text_of(path)?),
    };
    let named = |error: String| UsageError(format!("{}: {error}", say::name_of(path)));
    let described = described.map_err(named)?;
    let tasks = described.set.tasks.iter();
    let utilisation: f64 = tasks.map(PeriodicTask::utilisation).sum();
    if described.set.tasks.len() > MOST_TASKS {
        return Err(named(format!(
            "there are more than {MOST_TASKS} tasks: name only the tasks that share one CPU"
        ))
        .into());
    }
    // The sum may be rounded up, and tasks that need exactly one CPU must pass.
    match utilisation > 1.0 + 1e-9 {
        true => Err(named(format!(
            "the tasks need {utilisation:.3} CPUs, and share one: remove a task, or use longer periods"
        ))
        .into()),
        false => Ok(described),
    }
}

fn models_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let name = say::name_of(folder);
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {name}"))?;
    let mut models = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read {name}"))?.path();
        if lime::is_model(&path) {
            models.push(path);
        }
    }
    models.sort();
    match models.is_empty() {
        true => Err(UsageError(format!(
            "{name} has no models of LiME (*.models.json): name a file of tasks, or the folder that `lime-rtw extract -o` wrote"
        ))
        .into()),
        false => Ok(models),
    }
}

fn text_of(path: &Path) -> Result<String> {
    let name = say::name_of(path);
    let size = fs::metadata(path).with_context(|| format!("cannot read {name}"))?;
    if size.len() > MOST_BYTES {
        return Err(UsageError(format!(
            "{name} has more than 1 MiB: name a file of tasks (docs/schedule.md)"
        ))
        .into());
    }
    let text = fs::read(path).with_context(|| format!("cannot read {name}"))?;
    String::from_utf8(text).map_err(|_| {
        UsageError(format!(
            "{name} is no text: name a file of tasks (docs/schedule.md)"
        ))
        .into()
    })
}
