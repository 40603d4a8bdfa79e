//! Wake-ups of periodic tasks: how late, in which phase, and who had the CPU meanwhile.

mod cut;
mod distribution;
mod explained;
mod ledger;
mod summary;
mod wakeup;
mod worst;

pub(crate) use cut::{Cutter, Ground};
pub use distribution::LatencyFigures;
pub(crate) use distribution::Room;
pub(crate) use explained::{CutStretch, ExplainedWakeup};
pub(crate) use ledger::WakeupLedger;
pub use summary::{CpuWakeups, PhaseTotals, Wakeups};
pub use wakeup::Wakeup;
pub(crate) use worst::{WakeupRank, WorstWakeups, rank};
