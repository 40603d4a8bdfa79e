//! Whether a run keeps a budget, decided from its figures and from what they are worth.
//!
//! What a run had is exact: its longest gap, its noise, what a share took. Such a limit is decided by the run itself,
//! as far as nothing was lost and nothing stays unexplained that could be over it. A percentile says more than a run
//! has seen: it is decided by how many values there were ([`odds`]).

mod budget;
mod estimate;
mod evidence;
mod joined;
mod judge;
pub(crate) mod odds;
mod reason;

pub use budget::{Budget, Culprit, Quantity, Requirement};
pub use evidence::{Evidence, EvidenceReader};
pub use joined::JoinedEvidenceReader;
pub use judge::{Blame, Judged, Judgement, Verdict};
pub use reason::Reason;
