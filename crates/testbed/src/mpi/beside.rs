//! Compares predicted with measured step times of an MPI program. In each round, all scenes run one
//! after the other.

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
/// Length of a recording. The ranks and the pollers run at `SCHED_FIFO`. The kernel throttles such
/// tasks after 950 ms for the rest of the second (Documentation/scheduler/sched-rt-group.rst). So a
/// recording, and also the slowest run, must be shorter than 950 ms.
const RECORDED: Duration = Duration::from_millis(800);
const STEPS: usize = 400;
const ROUNDS: usize = 3;
/// Maximum number of attempts. A comparison is repeated if the machine had too much other noise.
const ATTEMPTS: usize = 3;

/// Conditions of a comparison.
#[derive(Debug, Clone, Copy)]
pub struct PredictionComparison<'a> {
    /// Program that starts the ranks.
    pub launcher: Launcher<'a>,
    /// Collective that ends a step.
    pub collective: MpiCollective,
    /// Bursts of the disturbers.
    pub bursts: Bursts,
    /// Number of repetitions of each scene.
    pub rounds: usize,
}

/// Outcome of one scene over all rounds.
#[derive(Debug, Clone)]
pub struct SceneOutcome {
    /// Ranks that are disturbed.
    pub scene: RankScene,
    /// For each round, the predicted step times, and the step times that were measured directly
    /// afterwards.
    pub rounds: Vec<(RankPrediction, StepTimes)>,
    /// Allowed relative difference between prediction and measurement, because they cover different
    /// times.
    pub unlike: f64,
    /// Allowed relative difference between prediction and measurement, for all reasons.
    pub allowed: f64,
}

/// Compares predicted with measured step times in all [`SCENES`], in their order.
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

/// Records the CPUs and then runs the program on them. The same disturbers run all the time.
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
    /// Returns the predicted and the measured slowdown of a step, each as the median over all
    /// rounds. The slowdown is the length of a step divided by the CPU time that its work needs.
    pub fn slowdowns(&self) -> [f64; 2] {
        let rounds = self.rounds.iter();
        let slowdowns: Vec<_> = rounds
            .map(|(predicted, measured)| slowdowns(predicted, measured))
            .collect();
        [0, 1].map(|side| median(slowdowns.iter().map(|both| both[side])))
    }

    /// Returns the predicted and the measured mean length of a step in nanoseconds, each as the
    /// median over all rounds.
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

    /// Returns the allowed relative difference between the predicted and the measured slowdown.
    /// They differ because they cover different times.
    ///
    /// A disturber takes the share d of the time, and other noise takes the share e. In a time T,
    /// the steps' work gets T (1 - d - e). So the length of a step relative to its work is 1 / (1 -
    /// d - e). For small e this is S (1 + S e), with S = 1 / (1 - d). Ranks that wait anyway lose
    /// nothing, so the real length may be less. Then S and the bound are too large.
    ///
    /// The share e differs between the recording and the run, and is never negative. In half of the
    /// rounds, e is at most the largest e of a quiet round in the recording or in the run. Half of
    /// the rounds suffice for a median. The quiet runs include the time of the collective itself.
    /// The recording and the run both contain one burst more or less than the average for their
    /// length T. So d is wrong by the share of one burst in T. If two disturbers take turns, d is
    /// wrong by one burst of each.
    fn unlike_beside(&self, others: f64, bursts: Bursts) -> f64 {
        let burst = bursts.burst.as_secs_f64() * f64::from(self.scene.turns());
        let spans_ns = self.rounds.iter().map(|(_, measured)| measured.span_ns);
        let run = Duration::from_nanos(spans_ns.min().unwrap_or(u64::MAX)).as_secs_f64();
        let edges = burst / RECORDED.as_secs_f64() + burst / run;
        self.scene.slowdown(bursts) * (others + edges)
    }
}

/// Returns the comparisons for the report in which Open MPI starts the ranks.
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

/// Returns the comparison for the report in which Slurm starts the ranks.
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
