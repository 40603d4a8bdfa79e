//! Predicted and measured side by side, the scenes in turns.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::predicted::{predict, record};
use super::{
    BRIEF, Bursts, Collective, LONG, Launcher, Measured, Predicted, Program, SCENES, Scene, Slurm,
};

/// What a step needs of its CPU.
const STEP: Duration = Duration::from_millis(1);
/// The ranks and the pollers run at `SCHED_FIFO`, and the kernel stops that for the rest of a second that it had
/// 950 ms of (Documentation/scheduler/sched-rt-group.rst). Neither a recording nor the slowest run takes as much.
const RECORDED: Duration = Duration::from_millis(800);
const STEPS: usize = 400;
const ROUNDS: usize = 3;
/// How often all is measured once more where too much else was there.
const ATTEMPTS: usize = 3;

/// A comparison.
#[derive(Debug, Clone, Copy)]
pub struct Beside<'a> {
    /// Who starts the ranks.
    pub launcher: Launcher<'a>,
    /// What ends a step.
    pub collective: Collective,
    /// What disturbs.
    pub bursts: Bursts,
    /// How often each scene takes place.
    pub rounds: usize,
}

/// One scene, in all rounds.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Who was disturbed.
    pub scene: Scene,
    /// What was predicted, and what was measured right after.
    pub rounds: Vec<(Predicted, Measured)>,
    /// How far the two may lie apart, of either, for what they cannot have in common.
    pub unlike: f64,
    /// Likewise, for all reasons.
    pub allowed: f64,
}

/// Compares. The scenes are those of `SCENES`, in their order.
///
/// # Errors
/// If a program fails, or this machine is too noisy for what disturbs to stand out.
pub fn beside(comparison: &Beside<'_>, folder: &Path) -> Result<Vec<Outcome>> {
    let step_ns = STEP.as_nanos() as u64;
    let program = Program::build(folder, &comparison.launcher, step_ns)?;
    for _ in 0..ATTEMPTS {
        let outcomes = attempt(comparison, &program, folder)?;
        let mut disturbed = outcomes.iter().skip(1);
        if disturbed.all(|it| 2.0 * it.unlike < it.scene.slowdown(comparison.bursts) - 1.0) {
            return Ok(outcomes);
        }
    }
    ensure!(
        false,
        "in {ATTEMPTS} attempts there was too much else on CPUs 0 and 1 for a disturber to stand out"
    );
    Ok(Vec::new())
}

fn attempt(comparison: &Beside<'_>, program: &Program, folder: &Path) -> Result<Vec<Outcome>> {
    let mut outcomes = SCENES.map(|scene| Outcome {
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

/// The CPUs are recorded, and then the program has them, both beside the same disturbers.
fn one(
    comparison: &Beside<'_>,
    program: &Program,
    scene: Scene,
    folder: &Path,
) -> Result<(Predicted, Measured)> {
    let Beside {
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

fn slowdowns(predicted: &Predicted, measured: &Measured) -> [f64; 2] {
    [
        predicted.step_ns / measured.work_ns as f64,
        measured.slowdown(),
    ]
}

impl Outcome {
    /// How long a step takes, of what its work needs: as predicted and as measured, the median of all rounds.
    pub fn slowdowns(&self) -> [f64; 2] {
        let rounds = self.rounds.iter();
        let slowdowns: Vec<_> = rounds
            .map(|(predicted, measured)| slowdowns(predicted, measured))
            .collect();
        [0, 1].map(|side| median(slowdowns.iter().map(|both| both[side])))
    }

    /// The mean step, nanoseconds, likewise.
    pub fn steps_ns(&self) -> [f64; 2] {
        let rounds = || self.rounds.iter();
        [
            median(rounds().map(|(predicted, _)| predicted.step_ns)),
            median(rounds().map(|(_, measured)| measured.step_ns)),
        ]
    }

    /// By how much more than the other one of them is longer.
    pub fn apart(&self) -> f64 {
        let [predicted, measured] = self.slowdowns();
        predicted.max(measured) / predicted.min(measured) - 1.0
    }

    /// How far predicted and measured may lie apart, of either, for what the two cannot have in common.
    ///
    /// A disturber has its share d of the time, and all else e of it, so of a time T the steps have T (1 - d - e), and
    /// they are 1 / (1 - d - e) as long as their work, which is S (1 + S e) for small e, with S = 1 / (1 - d). If it is
    /// less, for ranks that wait anyway lose nothing meanwhile, S is too large here, and so is the bound.
    ///
    /// - All else comes to some e in the recording, to another one in the run; neither is less than nothing, and in
    ///   half of the rounds, which is what a median asks for, not more than the most that a quiet round had on
    ///   either side. What the collective itself takes is in the quiet runs, too.
    /// - In a time T there is one burst more or less than T holds periods, on both sides: that is a d which is a
    ///   burst's part of T off. Where two take turns it is one burst of each.
    fn unlike_beside(&self, others: f64, bursts: Bursts) -> f64 {
        let burst = bursts.burst.as_secs_f64() * f64::from(self.scene.turns());
        let spans_ns = self.rounds.iter().map(|(_, measured)| measured.span_ns);
        let run = Duration::from_nanos(spans_ns.min().unwrap_or(u64::MAX)).as_secs_f64();
        let edges = burst / RECORDED.as_secs_f64() + burst / run;
        self.scene.slowdown(bursts) * (others + edges)
    }
}

/// All that are worth a row, started by Open MPI.
pub fn by_mpirun() -> Vec<Beside<'static>> {
    let comparisons = [
        (Collective::Barrier, LONG),
        (Collective::Barrier, BRIEF),
        (Collective::Allreduce, LONG),
    ];
    let comparisons = comparisons.into_iter();
    comparisons
        .map(|(collective, bursts)| Beside {
            launcher: Launcher::Mpirun,
            collective,
            bursts,
            rounds: ROUNDS,
        })
        .collect()
}

/// Likewise, started by Slurm.
pub fn by_srun(slurm: &Slurm) -> Vec<Beside<'_>> {
    vec![Beside {
        launcher: Launcher::Srun(slurm),
        collective: Collective::Barrier,
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
