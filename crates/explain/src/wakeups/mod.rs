//! Wake-ups of periodic tasks: how late, in which phase, and who had the CPU meanwhile.

mod cut;
mod distribution;
mod ledger;
mod phase;
mod summary;
mod wakeup;
mod worst;

pub(crate) use cut::Cutter;
pub use distribution::LatencyFigures;
pub(crate) use ledger::WakeupLedger;
pub use phase::Phase;
pub use summary::{CpuWakeups, NamedWakeupPart, PhaseTotals, Wakeups, WorstWakeup};
pub use wakeup::{Wakeup, WakeupPart};
pub(crate) use worst::WorstWakeups;
