//! Compares what `vmnoise` reports with what the kernel and other tools report.

mod agreement;
mod branch;
mod causes;
mod cyclictest;
mod descheduled;
mod flagship;
mod gaps;
mod latencies;
mod matching;
mod osnoise;
pub mod report;
mod residual;
mod softirqs;
mod timerlat;
mod trace;
pub mod vm_exits;
pub mod waited;
pub mod xen;
pub mod xen_slop;

pub use agreement::Agreement;
pub use branch::{OracleExit, busiest_exit};
pub use causes::{Cause, Causes, Delay, causes};
pub use cyclictest::{
    BesideCyclictest, HereBesideCyclictest, beside_cyclictest, here_beside_cyclictest,
};
pub use descheduled::{DeschedulingTrace, LateWakeup, descheduled};
pub use flagship::{Flagship, flagship};
pub use gaps::Gaps;
pub use latencies::Turns;
pub use osnoise::{BesideKernel, TracerTurn, beside_the_kernel, nmis};
pub use residual::{MeasuringSide, Residual, residuals};
pub use softirqs::{Softirqs, softirqs};
pub use timerlat::{BesideTimerlat, ContextAgreement, beside_timerlat};
pub use trace::OsnoiseEventKind;
pub(crate) use trace::timestamp_ns;
