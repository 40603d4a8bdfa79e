//! Compares predicted with measured steps. The scenes take turns.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::predicted::{predict, record};
use super::{
    BRIEF, Bursts, LONG, Launcher, MpiCollective, MpiProgram, RankPrediction, RankScene, SCENES,
    Slurm, StepTimes,
};

/// CPU time that the work of a step needs.
const STEP: Duration = Duration::from_millis(1);
/// Length of a recording. The ranks and the pollers run at `SCHED_FIFO`, and after 950 ms the
/// kernel throttles them for the rest of that second (Documentation/scheduler/sched-rt-group.rst).
/// A recording, and also the slowest run, must be shorter.
const RECORDED: Duration = Duration::from_millis(800);
const STEPS: usize = 400;
const ROUNDS: usize = 3;
/// Number of attempts: a comparison is repeated if the machine had too much other noise.
const ATTEMPTS: usize = 3;

/// Conditions of a comparison.
#[derive(Debug, Clone, Copy)]
pub struct PredictionComparison<'a> {
    /// How the ranks are started.
    pub launcher: Launcher<'a>,
    /// Collective that ends a step.
    pub collective: MpiCollective,
    /// Bursts of the disturbers.
    pub bursts: Bursts,
    /// Number of repetitions of each scene.
    pub rounds: usize,
}

/// One scene in all rounds.
#[derive(Debug, Clone)]
pub struct SceneOutcome {
    /// Ranks that are disturbed.
    pub scene: RankScene,
    /// For each round, the prediction, and the measurement directly after it.
    pub rounds: Vec<(RankPrediction, StepTimes)>,
    /// How far the two may differ, relative to either, because they cover different times.
    pub unlike: f64,
    /// How far the two may differ, relative to either, for all reasons.
    pub allowed: f64,
}

/// Compares predicted with measured steps in all `SCENES`, in their order.
///
/// # Errors
/// If a program fails, or this machine is too noisy for the disturbers to stand out.
pub fn beside(comparison: &PredictionComparison<'_>, folder: &Path) -> Result<Vec<SceneOutcome>> {
    let step_ns = STEP.as_nanos() as u64;
    let program = MpiProgram::build(folder, &comparison.launcher, step_ns)?;
    for _ in 0..ATTEMPTS {
        let outcomes = attempt(comparison, &program, folder)?;
        let mut disturbed = outcomes.iter().skip(1);
        if disturbed.all(|it| 2.0 * it.unlike < it.scene.slowdown(comparison.bursts) - 1.0) {
            return Ok(outcomes);
        }
    }
    ensure!(
        false,
        "in {ATTEMPTS} attempts CPUs 0 and 1 had too much other noise for a disturber to stand out"
    );
    Ok(Vec::new())
}

fn attempt(
    comparison: &PredictionComparison<'_>,
    program: &MpiProgram,
    folder: &Path,
) -> Result<Vec<SceneOutcome>> {
    let mut outcomes = SCENES.map(|scene| SceneOutcome {
        scene,
        rounds: Vec::new(),
        unlike: 0.0,
        allowed: 0.0,
    });
    for _ in 0..comparison.rounds {
        for outcome in &mut outcomes {
            outcome
                .rounds
                .push(one(comparison, program, outcome.scene, folder)?);
        }
    }
    let quiet = outcomes[0].rounds.iter();
    let quiet = quiet.flat_map(|(predicted, measured)| slowdowns(predicted, measured));
    let others = quiet.fold(1.0, f64::max) - 1.0;
    for outcome in &mut outcomes {
        outcome.unlike = outcome.unlike_beside(others, comparison.bursts);
        outcome.allowed = outcome.unlike + comparison.collective.estimated_within();
    }
    Ok(outcomes.into())
}

/// Records the CPUs, and then runs the program on them, both with the same disturbers.
fn one(
    comparison: &PredictionComparison<'_>,
    program: &MpiProgram,
    scene: RankScene,
    folder: &Path,
) -> Result<(RankPrediction, StepTimes)> {
    let PredictionComparison {
        launcher,
        collective,
        bursts,
        ..
    } = comparison;
    let recording = folder.join("cpus.vmn");
    let mut disturbers = scene.begin(*bursts)?;
    record(&recording, RECORDED)?;
    let measured = program.run(folder, launcher, STEPS, *collective)?;
    for disturber in &mut disturbers {
        disturber.has_worked()?;
    }
    drop(disturbers);
    Ok((predict(&recording, &measured, *collective)?, measured))
}

fn slowdowns(predicted: &RankPrediction, measured: &StepTimes) -> [f64; 2] {
    [
        predicted.step_ns / measured.work_ns as f64,
        measured.slowdown(),
    ]
}

impl SceneOutcome {
    /// Returns the median slowdown of a step over all rounds, predicted and measured: its length
    /// relative to the CPU time that its work needs.
    pub fn slowdowns(&self) -> [f64; 2] {
        let rounds = self.rounds.iter();
        let slowdowns: Vec<_> = rounds
            .map(|(predicted, measured)| slowdowns(predicted, measured))
            .collect();
        [0, 1].map(|side| median(slowdowns.iter().map(|both| both[side])))
    }

    /// Returns the median over all rounds of the mean step, predicted and measured, in nanoseconds.
    pub fn steps_ns(&self) -> [f64; 2] {
        let rounds = || self.rounds.iter();
        [
            median(rounds().map(|(predicted, _)| predicted.step_ns)),
            median(rounds().map(|(_, measured)| measured.step_ns)),
        ]
    }

    /// Returns the relative difference between the predicted and the measured slowdown.
    pub fn apart(&self) -> f64 {
        let [predicted, measured] = self.slowdowns();
        predicted.max(measured) / predicted.min(measured) - 1.0
    }

    /// Returns how far the predicted and the measured slowdown may differ, relative to either,
    /// because the two cover different times.
    ///
    /// A disturber has the share d of the time, and other noise the share e. Of a time T the steps
    /// have T (1 - d - e). So their length relative to their work is 1 / (1 - d - e), which is
    /// S (1 + S e) for small e, with S = 1 / (1 - d). Ranks that wait anyway lose nothing, so the real
    /// length may be less; S is too large then, and so is the bound.
    ///
    /// - The share e differs between the recording and the run. It is never negative. In half of
    ///   the rounds, which is enough for a median, it is at most the largest e of a quiet round on
    ///   either side. The quiet runs include the time of the collective itself.
    /// - A time T contains its number of periods plus or minus one burst, on both sides. So d is
    ///   wrong by one burst's share of T. If two disturbers take turns, it is one burst of each.
    fn unlike_beside(&self, others: f64, bursts: Bursts) -> f64 {
        let burst = bursts.burst.as_secs_f64() * f64::from(self.scene.turns());
        let spans_ns = self.rounds.iter().map(|(_, measured)| measured.span_ns);
        let run = Duration::from_nanos(spans_ns.min().unwrap_or(u64::MAX)).as_secs_f64();
        let edges = burst / RECORDED.as_secs_f64() + burst / run;
        self.scene.slowdown(bursts) * (others + edges)
    }
}

/// Returns the comparisons that are reported, with ranks started by Open MPI.
pub fn by_mpirun() -> Vec<PredictionComparison<'static>> {
    let comparisons = [
        (MpiCollective::Barrier, LONG),
        (MpiCollective::Barrier, BRIEF),
        (MpiCollective::Allreduce, LONG),
    ];
    let comparisons = comparisons.into_iter();
    comparisons
        .map(|(collective, bursts)| PredictionComparison {
            launcher: Launcher::Mpirun,
            collective,
            bursts,
            rounds: ROUNDS,
        })
        .collect()
}

/// Returns the comparison that is reported with ranks started by Slurm.
pub fn by_srun(slurm: &Slurm) -> Vec<PredictionComparison<'_>> {
    vec![PredictionComparison {
        launcher: Launcher::Srun(slurm),
        collective: MpiCollective::Barrier,
        bursts: LONG,
        rounds: ROUNDS,
    }]
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = [(values.len() - 1) / 2, values.len() / 2];
    middle.iter().map(|at| values[*at]).sum::<f64>() / 2.0
}
