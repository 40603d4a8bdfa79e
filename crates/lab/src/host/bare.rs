//! Runs cells that measure this host itself, or this Dom0.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use vmnoise_testbed::{TiedProcess, binary};

use super::load::Loaded;
use super::{HostMachine, waiting};
use crate::measuring::{self, Brought, Job, on};
use crate::scenario::CellWorkload;

/// Additional time, after the end of the measurement, in which the program must end.
const BACKSTOP: Duration = Duration::from_secs(60);

/// Measures the cell. `side` is the name of the host in the list of commands.
pub(super) fn run(host: &HostMachine, job: Job<'_>, side: &str) -> Result<Brought> {
    let Job { cell, measure, .. } = job;
    let folder = tempfile::tempdir().context("a folder for recordings")?;
    let (mut recordings, mut commands) = (Vec::new(), Vec::new());
    let mut console = String::new();
    let mut load = Loaded::start(host, job, folder.path())?;
    commands.extend(load.command());
    for name in measuring::files(cell, measure) {
        let file = folder.path().join(&name);
        let (program, on_cpu) = match cell.workload {
            CellWorkload::Cyclictest => (PathBuf::from(measuring::CYCLICTEST), "-a"),
            CellWorkload::Timerlat | CellWorkload::Osnoise | CellWorkload::Exercise => {
                (binary(), "-c")
            }
        };
        let recorded_to = |output: &str| {
            let command = measuring::command(cell, measure, output);
            format!("{command} {on_cpu} {}", host.cpu)
        };
        let command = recorded_to(&file.to_string_lossy());
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        let mut program = TiedProcess::start(&program, &words, &folder.path().join("said"))?;
        let within = Duration::from_nanos(measure.duration.ns()) + BACKSTOP;
        waiting::ended(&command, &mut program, within, job.asked_to_end)?;
        console += &program.said();
        commands.push(recorded_to(&name));
        recordings.push((name, std::fs::read(file)?));
    }
    load.has_worked()?;
    Ok(Brought {
        recordings,
        console,
        commands: on(side, &commands),
    })
}
