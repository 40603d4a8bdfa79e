//! Starts the ranks of an MPI program, with Open MPI or with Slurm.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};

use super::Slurm;

/// Number of ranks of every program. Rank R runs on CPU R.
const RANKS: &str = "2";
/// Maximum time of a program in seconds; all programs take less. The limit ends a program whose
/// ranks wait for each other forever.
const BACKSTOP: &str = "120";

/// Program that starts the ranks.
#[derive(Debug, Clone, Copy)]
pub enum Launcher<'a> {
    /// Open MPI's own program `mpirun`.
    Mpirun,
    /// Slurm's program `srun`. Slurm and Open MPI communicate by `PMIx`.
    Srun(&'a Slurm),
}

impl Launcher<'_> {
    /// Returns the launcher's name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Launcher::Mpirun => "mpirun",
            Launcher::Srun(_) => "srun",
        }
    }

    /// Runs this program on all ranks, and waits for its end. Temporary files go to `folder`.
    ///
    /// # Errors
    /// If a rank fails.
    pub fn run(&self, program: &[&str], folder: &Path) -> Result<Output> {
        let mut command = Command::new("timeout");
        command.arg(BACKSTOP).env("TMPDIR", folder);
        match self {
            // The ranks pin themselves, because Slurm's `task/none` does not pin them.
            // Oversubscription is allowed, because a container may show fewer CPUs than it has.
            Launcher::Mpirun => command
                .args(["mpirun", "--allow-run-as-root", "--oversubscribe"])
                .args(["--bind-to", "none", "-np", RANKS]),
            Launcher::Srun(slurm) => command.env("SLURM_CONF", slurm.configuration()).args([
                "srun",
                "--mpi=pmix",
                "--oversubscribe",
                "-n",
                RANKS,
            ]),
        };
        command.args(program).stdin(Stdio::null());
        let output = command.output().context("starting timeout")?;
        let said = String::from_utf8_lossy(&output.stderr);
        let name = self.name();
        ensure!(
            output.status.success(),
            "{name} {program:?} ended with {}: {said}",
            output.status
        );
        Ok(output)
    }
}

/// Returns the first program of Open MPI that is not installed, with its package and the error.
/// Returns `None` if all are installed.
pub fn what_is_missing() -> Option<String> {
    let programs = [("mpicc", "libopenmpi-dev"), ("mpirun", "openmpi-bin")];
    let mut missing = programs.iter().filter_map(|(program, package)| {
        let asked = Command::new(program).arg("--version").output();
        let error = asked.err()?;
        Some(format!("{program} (Debian's package {package}): {error}"))
    });
    missing.next()
}
