//! Types that all other crates of vmnoise use: observations of a workload, events of a kernel, and
//! names of the shares in a result.
//!
//! This crate does no I/O and reads no clock. It makes only one decision: which facts a recording
//! could not see ([`coverage`]). Suffixes of names give the unit and the clock: `_tsc` is a number
//! of cycles of the host's time-stamp counter, `_mono_ns` is a time of CLOCK_MONOTONIC, `_ns` is a
//! duration.

mod activation;
mod activity;
mod clock;
pub mod column;
pub mod coverage;
mod event;
pub mod exit_counts;
mod exit_filter;
mod exit_reason;
mod exits;
mod facts;
mod family;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
mod gap;
mod host_frame;
mod interference;
mod policy;
mod probe_name;
mod settings;
mod share;
mod share_map;
mod shown;
mod stop;
mod timer_slot;
mod units;
mod vcpu;
mod vm_identity;

pub use activation::Activation;
pub use activity::{Activity, ActivityKind, Source, SourceId};
pub use clock::{Anchor, ClockFacts, ClockSource, OffsetProof};
pub use event::{CpuTally, Event, Finish, FinishReason, Loss, LossKind, OwnCost, PostedInterrupts};
pub use exit_filter::ExitFilter;
pub use exit_reason::{ExitReason, Isa};
pub use exits::{Exit, ReasonTotals, VcpuExit, VcpuTotals};
pub use facts::{
    HostFacts, MeasuringCommand, ObservedThread, ProbeStatus, RunFacts, RunOptions, TimerOptions,
    Witnesses,
};
pub use family::{
    FamilyBooks, FamilyCulprit, FamilyCulpritKind, FamilyLongest, FamilyLook, FamilyMember,
    FamilyTaken, FamilyWaits,
};
pub use gap::Gap;
pub use host_frame::{FeedDetail, FeedTotals, HostCulprit, HostFrame, HostReason};
pub use interference::{InterferenceCounts, InterferenceSlot};
pub use policy::Policy;
pub use probe_name::ProbeName;
pub use settings::Settings;
pub use share::Share;
pub use share_map::ShareMap;
pub use shown::{Name, ShownLine, ShownText, shown_lines};
pub use stop::{Occupant, StackFrame};
pub use timer_slot::TimerSlot;
pub use units::human;
pub use vcpu::{Vcpu, VcpuClock, VcpuId, VcpuInterval, VcpuIntervalKind};
pub use vm_identity::{VmFact, VmIdentity};
