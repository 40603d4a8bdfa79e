//! Makes a run: drains what is measured, explains and records it, and reacts to its limits. What a
//! run is shown by is not its concern.

pub mod cpus;
pub mod exits_session;
pub mod files;
pub mod interrupt;
mod loss_news;
pub mod reaction;
pub mod recent_trace;
pub mod recorder;
pub mod session;
pub mod trace_line;
pub mod vcpus;
pub mod write_behind;
