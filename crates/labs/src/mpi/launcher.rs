//! How the ranks of a program are started: by Open MPI, or by Slurm.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};

use super::Slurm;

/// Ranks of every program here, one on each of the first CPUs.
const RANKS: &str = "2";
/// Longer than any program here takes, seconds: one whose ranks wait for each other for ever is ended.
const BACKSTOP: &str = "120";

/// Who starts ranks.
#[derive(Debug, Clone, Copy)]
pub enum Launcher<'a> {
    /// Open MPI's own `mpirun`.
    Mpirun,
    /// `srun`, with `PMIx` between Slurm and Open MPI.
    Srun(&'a Slurm),
}

impl Launcher<'_> {
    /// As it is printed.
    pub fn name(&self) -> &'static str {
        match self {
            Launcher::Mpirun => "mpirun",
            Launcher::Srun(_) => "srun",
        }
    }

    /// Runs this by all ranks to its end. What they leave behind lies in the folder.
    ///
    /// # Errors
    /// If one of them fails.
    pub fn run(&self, program: &[&str], folder: &Path) -> Result<Output> {
        let mut command = Command::new("timeout");
        command.arg(BACKSTOP).env("TMPDIR", folder);
        match self {
            // Ranks take their places themselves, for Slurm's `task/none` gives them none. Oversubscription is
            // declared, for a container may be told of fewer CPUs than it has.
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

/// Why nothing can be started here by Open MPI: a program that is not installed.
pub fn what_is_missing() -> Option<String> {
    let programs = [("mpicc", "libopenmpi-dev"), ("mpirun", "openmpi-bin")];
    let mut missing = programs.iter().filter_map(|(program, package)| {
        let asked = Command::new(program).arg("--version").output();
        let error = asked.err()?;
        Some(format!("{program} (Debian's package {package}): {error}"))
    });
    missing.next()
}
