//! Joins the gaps or wake-up latencies of a guest with the events of its host: on one clock, with
//! each nanosecond attributed once.

mod branch;
mod branches;
mod candidates;
mod clock_epochs;
mod crossing;
mod culprits;
mod elsewhere;
mod error;
mod evidence;
mod guest_clock;
mod host;
mod joiner;
mod judgement;
mod latency;
mod latency_sums;
mod matcher;
mod observed_cpu;
mod odds;
mod one_machine;
mod options;
mod pairing;
mod pairs;
mod ran;
mod reported;
mod result;
mod rivals;
mod settle;
mod shifted;
mod slack;
mod sums;
mod tree;
mod trial;
mod unpaired;

pub use branch::{ExitBranch, GuestCulprit, Unsure, VmSide};
pub use error::JoinError;
pub use joiner::Joiner;
pub use latency::{ContextSides, CpuSides, JoinedLatencies, LatencyTotals, PhaseSides};
pub use matcher::Matcher;
pub use odds::PairingVerdict;
pub use options::JoinOptions;
pub use pairing::{Alternative, CandidateVm, Pairing, VcpuPair};
pub use pairs::Pairs;
pub use result::{HostSide, JoinedRun, JoinedTotals, ThesisSum};
pub use tree::{JoinTree, Most, Stretch, TreeBranch, What};
pub use unpaired::PairingFailure;
