//! Joins what the workload in a guest felt to what the host of that guest did meanwhile:
//! one clock, one budget for both kernels.

mod result;

pub use result::{
    Culprit, ExitBranch, GapTree, HostPart, HostSide, JoinedRun, JoinedTotals, Pair, Side,
    ThesisSum,
};
