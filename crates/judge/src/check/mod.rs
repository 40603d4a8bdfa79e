//! Decides whether a run keeps a budget, from its figures and their uncertainty.
//!
//! Some figures of a run are exact: its longest gap, its noise, the time of a share. An exact
//! figure decides its limit, unless records were lost or unexplained time could exceed the limit. A
//! percentile or a rate is a statement about future values, too. The number of values determines
//! whether the run can decide such a limit (`odds`).

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
