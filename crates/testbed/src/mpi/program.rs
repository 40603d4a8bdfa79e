//! Builds and runs the MPI program (`mpi/steps.c`), and reads the step times that it measured.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Launcher;

/// Collective that ends a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MpiCollective {
    /// Barrier: each rank waits until all ranks are there.
    Barrier,
    /// Allreduce: each rank waits for the sum of one number from every rank.
    Allreduce,
}

impl MpiCollective {
    /// Returns the name of the collective for the program and for `vmnoise scale`.
    pub fn name(self) -> &'static str {
        match self {
            MpiCollective::Barrier => "barrier",
            MpiCollective::Allreduce => "allreduce",
        }
    }

    /// Returns the relative error that `vmnoise scale` itself may have. The tests of `vmnoise
    /// scale` have the same limit: they compare it with programs that are simulated step by step on
    /// the same gaps (docs/scale.md). For an allreduce, the prediction is only an estimate.
    pub(super) fn estimated_within(self) -> f64 {
        match self {
            MpiCollective::Barrier => 0.02,
            MpiCollective::Allreduce => 0.15,
        }
    }
}

/// Measured step times of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepTimes {
    /// CPU time that the work of a step needs, nanoseconds. It is the least time that the scheduler
    /// charged a rank for a step's work.
    pub work_ns: u64,
    /// Time that the collective itself takes, nanoseconds. It is the shortest wait of a rank for
    /// other ranks.
    pub collective_ns: u64,
    /// Time from the first step's start to the last step's end, nanoseconds.
    pub span_ns: u64,
    /// Mean length of a step, nanoseconds.
    pub step_ns: f64,
    /// Mean length of each rank's work, nanoseconds.
    pub rank_work_ns: [f64; 2],
}

/// The compiled program.
#[derive(Debug)]
pub struct MpiProgram {
    path: PathBuf,
    turns: u64,
}

/// One step as its rank measured it. Times are in nanoseconds.
struct Step {
    begin_ns: u64,
    work_ns: u64,
    step_ns: u64,
    charged_ns: u64,
}

impl MpiProgram {
    /// Compiles the program into this folder. Finds how many iterations of its loop take `step_ns`
    /// of CPU time.
    ///
    /// # Errors
    /// If `mpicc` or the program fails.
    pub fn build(folder: &Path, launcher: &Launcher<'_>, step_ns: u64) -> Result<MpiProgram> {
        /// Number of iterations of the first run. They take at most tens of milliseconds on any
        /// machine.
        const TRIED_TURNS: u64 = 100_000;
        let path = folder.join("steps");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("mpi/steps.c");
        let mut compiler = Command::new("mpicc");
        let output = compiler.args(["-O2", "-o"]).args([&path, &source]).output();
        let output = output.context("starting mpicc")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "mpicc: {said}");
        let tried = MpiProgram {
            path,
            turns: TRIED_TURNS,
        };
        let needed = tried.run(folder, launcher, 100, MpiCollective::Barrier)?;
        Ok(MpiProgram {
            turns: TRIED_TURNS * step_ns / needed.work_ns,
            ..tried
        })
    }

    /// Runs the program with this many steps, and returns the measured step times.
    ///
    /// # Errors
    /// If the program fails, or its output files are incomplete.
    pub fn run(
        &self,
        folder: &Path,
        launcher: &Launcher<'_>,
        steps: usize,
        collective: MpiCollective,
    ) -> Result<StepTimes> {
        let texts = [
            self.path.display().to_string(),
            self.turns.to_string(),
            steps.to_string(),
            collective.name().to_owned(),
            folder.display().to_string(),
        ];
        launcher.run(&texts.each_ref().map(String::as_str), folder)?;
        let read = |rank: usize| -> Result<Vec<Step>> {
            let path = folder.join(format!("rank{rank}"));
            let text = std::fs::read_to_string(&path);
            let text = text.with_context(|| path.display().to_string())?;
            std::fs::remove_file(&path)?;
            let found: Vec<Step> = text.lines().map(Step::of).collect::<Result<_>>()?;
            ensure!(found.len() == steps, "{} steps of {steps}", found.len());
            Ok(found)
        };
        StepTimes::of(&[read(0)?, read(1)?])
    }
}

impl Step {
    fn of(line: &str) -> Result<Step> {
        let mut numbers = line.split(' ').map(str::parse);
        let mut next = || numbers.next().context("a short line of steps");
        Ok(Step {
            begin_ns: next()??,
            work_ns: next()??,
            step_ns: next()??,
            charged_ns: next()??,
        })
    }
}

impl StepTimes {
    fn of(ranks: &[Vec<Step>; 2]) -> Result<StepTimes> {
        let all = || ranks.iter().flatten();
        let (first, last) = ranks[0].first().zip(ranks[0].last()).context("no step")?;
        let span_ns = last.begin_ns + last.step_ns - first.begin_ns;
        let steps = ranks[0].len() as f64;
        let least = |times: &dyn Fn(&Step) -> u64| all().map(times).min().context("no step");
        Ok(StepTimes {
            work_ns: least(&|step| step.charged_ns)?,
            collective_ns: least(&|step| step.step_ns - step.work_ns)?,
            span_ns,
            step_ns: span_ns as f64 / steps,
            rank_work_ns: ranks.each_ref().map(|rank| {
                let sum_ns: u64 = rank.iter().map(|step| step.work_ns).sum();
                sum_ns as f64 / steps
            }),
        })
    }

    /// Returns the mean length of a step divided by the CPU time that its work needs.
    pub fn slowdown(&self) -> f64 {
        self.step_ns / self.work_ns as f64
    }
}
