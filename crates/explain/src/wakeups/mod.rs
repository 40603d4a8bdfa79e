//! Wake-ups of periodic tasks: how late, in which phase, and who had the CPU meanwhile.

mod distribution;
mod ledger;
mod summary;

pub use distribution::LatencyFigures;
pub(crate) use distribution::Room;
pub(crate) use ledger::WakeupLedger;
pub use summary::{CpuWakeups, PhaseTotals, Wakeups};
