//! Wake-ups of periodic tasks: latency, phases, and who had the CPU.

mod distribution;
mod ledger;
mod summary;

pub use distribution::LatencyFigures;
pub(crate) use distribution::Room;
pub(crate) use ledger::WakeupLedger;
pub use summary::{CpuWakeups, PhaseTotals, WakeupSummary};
