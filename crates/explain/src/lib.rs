//! Explains streams of events: events become budgets, and budgets become a summary. This crate has
//! no I/O, no clock and no randomness. The same events in the same order give the same result, live
//! or replayed.
//!
//! The law: the parts of each gap's budget, in integer nanoseconds, add up to the length of the
//! gap. No part is negative, and no nanosecond counts twice. Time that no probe explains is a part
//! too: the residual.

#![forbid(unsafe_code)]

mod attribute;
mod clockmap;
mod columns;
mod coverage;
mod cpu;
mod derive;
mod exit_lengths;
mod exits;
mod explainer;
mod feed;
mod guest_columns;
mod horizon;
mod host_exits;
mod interference;
mod interval;
mod join;
mod kvm_bound;
mod ledger;
mod lengths;
mod linear_histogram;
mod longest;
mod losses;
mod named;
mod names;
mod near;
mod net_noise;
mod own_steal;
mod part;
mod percent;
mod periodic;
mod phase;
mod piece;
mod plain_kvm;
mod posted;
mod residual;
mod steal;
mod stream_gaps;
mod summary;
mod sweep;
mod timeline;
mod trace;
mod usual_kvm;
mod vcpus;
mod visibility;
mod waiting;
mod wakeups;
mod worst;

pub use columns::{
    EXIT_COLUMNS, EXIT_COLUMNS_OF_PAGE, LatencyRow, TablePlace, cpu_columns, latency_columns,
};
pub use exit_lengths::{ExitLengths, floor_ns, next_floor_ns};
pub use exits::{
    ExitsSummary, ReasonExits, VcpuExits, VcpuTime, VmExits, WorstExit, exit_shares,
    summarize_exits,
};
pub use explainer::{Explainer, OVERSLEPT};
pub use feed::{CpuFromFeed, FeedSummary, ReportedCulprit, ReportedHost, ReportedReason};
pub use guest_columns::GuestColumns;
pub use interference::InterferenceColumns;
pub use interval::{Detail, GapDetail, Interval, WakeupDetail};
pub use join::{
    Alternative, CandidateVm, ContextSides, CpuSides, ExitBranch, GuestCulprit, HostSide,
    JoinError, JoinOptions, JoinTree, JoinedLatencies, JoinedRun, JoinedTotals, Joiner,
    LatencyTotals, Matcher, Most, Pairing, PairingFailure, PairingVerdict, Pairs, PhaseSides,
    Stretch, ThesisSum, TreeBranch, Unsure, VcpuPair, VmSide, What,
};
pub use ledger::PeriodLine;
pub use lengths::Lengths;
pub use linear_histogram::LinearHistogram;
pub use longest::{Longest, MOST_LISTED};
pub use losses::Losses;
pub use named::{NamedInterval, NamedPart, SourceSummary};
pub use part::{Part, by_source};
pub use periodic::{CELLS as FOLD_CELLS, FoldCell};
pub use phase::Phase;
pub use piece::NamedPiece;
pub use summary::{
    ClockJumps, CpuSummary, ExitsOfVcpu, OwnCostSummary, Percentiles, Periodic, Summary,
};
pub use trace::{TraceContext, TraceLine, TraceNoise, TraceSample};
pub use vcpus::{ExitBudget, ExitExplainer, ExitsRun, LongestExit, NamedExit, TracedExit};
pub use visibility::share_of;
pub use wakeups::{CpuWakeups, LatencyFigures, PhaseTotals, WakeupSummary};
