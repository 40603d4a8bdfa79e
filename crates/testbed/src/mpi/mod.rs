//! Runs a bulk-synchronous MPI program with known disturbers. Compares the step times that `vmnoise
//! scale` predicts from a recording with measured step times.

mod beside;
mod launcher;
mod predicted;
mod program;
mod scene;
mod slurm;

pub use beside::{PredictionComparison, SceneOutcome, beside, by_mpirun, by_srun};
pub use launcher::{Launcher, what_is_missing};
pub use predicted::{PRIORITY, RankPrediction};
pub use program::{MpiCollective, MpiProgram, StepTimes};
pub use scene::{BRIEF, Bursts, CULPRIT, LONG, RankScene, SCENES};
pub use slurm::Slurm;
