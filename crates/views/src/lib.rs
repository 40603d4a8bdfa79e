//! Reports of a run while it goes on and at its end, and the traits of those who show it. The
//! engine of a run and the crate that renders results share nothing else.

#![forbid(unsafe_code)]

mod at_stop;
mod command;
mod feed_report;
mod news;
mod recent_trace;
pub mod trace_line;
mod view;

pub use at_stop::{AtStop, GapKey, StopStack};
pub use command::{CommandRun, FromProc, ProcessEnd, QuietCpu, RunEvidence, RunRate};
pub use feed_report::FeedReport;
pub use news::{News, OuterStealAdvance, Period};
pub use recent_trace::RecentTrace;
pub use view::{
    CpusResult, FrameStart, FrameView, Meanwhile, ResultPart, ResultView, VcpusResult, ViewPlan,
    Watcher,
};
