//! Engine of a run: sets up the source, drains it, explains and records its events, and reacts to
//! limits. Views that show a run implement the traits of `vmnoise_views`.

#![forbid(unsafe_code)]

pub mod at_stop;
pub mod command;
pub mod cpus;
mod explaining;
pub mod feed;
pub mod files;
mod loss_news;
pub mod machine;
mod measure;
mod rank;
pub mod reaction;
mod recorder;
mod run;
mod session;
mod shown;
pub mod vcpus;

pub use explaining::{ExplainedRun, Explaining};
pub use machine::LocalMachine;
pub use measure::EventSource;
pub use run::{FOREVER_NS, RunRequest, run_measurement};
pub use session::Session;
pub use shown::TerminalView;
