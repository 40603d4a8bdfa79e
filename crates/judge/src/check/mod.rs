//! Whether a run keeps a budget, decided from its figures and their uncertainty.
//!
//! Some figures of a run are exact: its longest gap, its noise, the time of a share. The run itself
//! decides such a limit, unless records were lost, or unexplained time could exceed the limit. A
//! percentile or a rate is a statement about more than this run. The number of values decides it
//! ([`odds`]).

mod budget;
mod estimate;
mod evidence;
mod found;
mod joined;
mod judge;
pub(crate) mod odds;
mod reason;

pub use budget::{Budget, CulpritPattern, Quantity, Requirement};
pub use evidence::{BudgetEvidence, EvidenceReader};
pub use found::LimitVerdict;
pub use joined::JoinedEvidenceReader;
pub use judge::{Blame, BudgetLimitResult, CheckVerdict};
pub use reason::Reason;
