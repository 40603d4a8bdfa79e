//! Wake-ups of periodic tasks: latencies, phases, and culprits.

mod distribution;
mod ledger;
mod summary;

pub use distribution::LatencyFigures;
pub(crate) use distribution::Room;
pub(crate) use ledger::WakeupLedger;
pub use summary::{CpuWakeups, PhaseTotals, WakeupSummary};
