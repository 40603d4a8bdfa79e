//! Laboratories. A lab starts a known cause of lost time, and runs the built binary as a user
//! would. Then the lab compares the binary's result with the log that the cause wrote.
#![forbid(unsafe_code)]

pub mod bed;
pub mod browser;
pub mod chaos;
mod controller;
mod cpuset;
mod debugfs;
mod disturber;
pub mod faults;
mod feed_vmm;
pub mod footprint;
mod group;
mod held;
pub mod installed;
pub mod judge;
pub mod kvm_stat;
pub mod links;
pub mod metrics;
pub mod mpi;
pub mod neighbours;
pub mod oracle;
pub mod pair;
pub mod periodic;
pub mod placed;
pub mod polled;
pub mod processes;
mod quota;
pub mod relocations;
mod run;
pub mod schedstat;
mod skip;
pub mod stress_ng;
mod tied;
mod undisturbed;
pub mod urgency;
pub mod vmm;
pub mod vmm_steps;
pub mod xen_waits;

pub use cpuset::Cpuset;
pub use debugfs::with_debugfs;
pub use disturber::{Burst, Disturber};
pub use feed_vmm::FeedVmm;
pub use group::Group;
pub use held::{NOBODY_DRAINS, hold_first_thread};
pub use quota::Quota;
pub use run::{VmnoiseRun, binary, find_binary, lab_program, run_to_end};
pub use skip::skipped;
pub use tied::TiedProcess;
pub use undisturbed::undisturbed;
