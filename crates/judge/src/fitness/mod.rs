//! Decides whether a run of a command was disturbed too much to be compared with other runs. Does
//! no I/O.

mod evidence;
mod limit;
mod verdict;

pub use evidence::{FitnessEvidence, HypervisorRate, Range};
pub use limit::{FitnessLimit, LimitedFigure};
pub use verdict::{Fitness, FitnessLimitResult, FitnessVerdict};
