//! Whether a run of a command was disturbed too much to be compared with others. Pure.

mod evidence;
mod limit;
mod verdict;

pub use evidence::{Evidence, HypervisorRate, Range};
pub use limit::{Figure, Limit};
pub use verdict::{Fitness, Judged, Judgement};
