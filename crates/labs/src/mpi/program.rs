//! The program (`mpi/steps.c`), and what it wrote down of its steps.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Launcher;

/// What ends a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collective {
    /// All wait for the last.
    Barrier,
    /// Likewise, for the sum of what each has.
    Allreduce,
}

impl Collective {
    /// As the program and `vmnoise scale` call it.
    pub fn name(self) -> &'static str {
        match self {
            Collective::Barrier => "barrier",
            Collective::Allreduce => "allreduce",
        }
    }

    /// How far off `vmnoise scale` may be itself, of a step: what its own tests allow beside programs that are
    /// run step by step on the same gaps (docs/scale.md). It estimates an allreduce.
    pub(super) fn estimated_within(self) -> f64 {
        match self {
            Collective::Barrier => 0.02,
            Collective::Allreduce => 0.15,
        }
    }
}

/// How long the steps of a run took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// What the work of a step needs of its CPU: the least that the scheduler charged a rank for it, nanoseconds.
    pub work_ns: u64,
    /// What is left of the shortest wait for the others, nanoseconds: what the collective itself takes.
    pub collective_ns: u64,
    /// From the first begin to the last end, nanoseconds.
    pub span_ns: u64,
    /// The mean of a step, nanoseconds.
    pub step_ns: f64,
    /// The mean of each rank's work, nanoseconds.
    pub rank_work_ns: [f64; 2],
}

/// The compiled program.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    turns: u64,
}

/// One step as its rank wrote it down, nanoseconds.
struct Step {
    begin_ns: u64,
    work_ns: u64,
    step_ns: u64,
    charged_ns: u64,
}

impl Program {
    /// Compiles it into this folder, and finds out how many turns of its loop take `step_ns` of a CPU.
    ///
    /// # Errors
    /// If `mpicc` or the program fails.
    pub fn build(folder: &Path, launcher: &Launcher<'_>, step_ns: u64) -> Result<Program> {
        /// Few enough to take no more than some tens of milliseconds on any machine.
        const TRIED_TURNS: u64 = 100_000;
        let path = folder.join("steps");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("mpi/steps.c");
        let mut compiler = Command::new("mpicc");
        let output = compiler.args(["-O2", "-o"]).args([&path, &source]).output();
        let output = output.context("starting mpicc")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "mpicc: {said}");
        let tried = Program {
            path,
            turns: TRIED_TURNS,
        };
        let needed = tried.run(folder, launcher, 100, Collective::Barrier)?;
        Ok(Program {
            turns: TRIED_TURNS * step_ns / needed.work_ns,
            ..tried
        })
    }

    /// So many steps.
    ///
    /// # Errors
    /// If the program fails, or did not write down what it has to.
    pub fn run(
        &self,
        folder: &Path,
        launcher: &Launcher<'_>,
        steps: usize,
        collective: Collective,
    ) -> Result<Measured> {
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
        Measured::of(&[read(0)?, read(1)?])
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

impl Measured {
    fn of(ranks: &[Vec<Step>; 2]) -> Result<Measured> {
        let all = || ranks.iter().flatten();
        let (first, last) = ranks[0].first().zip(ranks[0].last()).context("no step")?;
        let span_ns = last.begin_ns + last.step_ns - first.begin_ns;
        let steps = ranks[0].len() as f64;
        let least = |times: &dyn Fn(&Step) -> u64| all().map(times).min().context("no step");
        Ok(Measured {
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

    /// How long a step took, of what its work needs.
    pub fn slowdown(&self) -> f64 {
        self.step_ns / self.work_ns as f64
    }
}
