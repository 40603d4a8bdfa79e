//! Results of `schedule`: the CPU time left to tasks, and whether they meet their deadlines.

pub mod csv;
pub mod document;
pub mod text;
mod words;

use vmnoise_events::Share;
use vmnoise_events::coverage::Coverage;
use vmnoise_predict::CpuRecord;
use vmnoise_predict::schedule::{TaskSet, TaskVerdict};
use vmnoise_predict::supply::MeasuredSupply;
use wildmatch::WildMatch;

/// Result.
pub struct ScheduleResult<'a> {
    /// CPUs in ascending order.
    pub cpus: Vec<CpuSupply<'a>>,
    /// Tasks to judge.
    pub set: Option<&'a TaskSet>,
    /// Assumptions about the tasks.
    pub notes: &'a [String],
    /// Patterns of the culprits whose time is left out.
    pub without: &'a [String],
}

/// CPU time that one CPU left to its tasks.
pub struct CpuSupply<'a> {
    /// Number of the CPU.
    pub cpu: u32,
    /// Recordings of the CPU.
    pub files: Vec<&'a str>,
    /// Rows, one for each length of window; empty if the output format has no rows.
    pub rows: Vec<WindowRow>,
    /// Shares with a column in the rows.
    pub shares: Vec<Share>,
    /// Least and largest threshold of the recordings, in nanoseconds. Gaps below the least are in
    /// no recording; gaps below the largest are not in all of them.
    pub thresholds_ns: (u64, u64),
    /// Coverage of its recordings.
    pub of_gaps: Vec<Coverage>,
    /// Coverage of the recordings of its timers.
    pub of_latencies: Vec<Coverage>,
    /// Unobserved time, nanoseconds.
    pub unseen_ns: u64,
    /// Worst latency of its timers, in nanoseconds; `None` without a recording of this machine.
    pub blocking_ns: Option<u64>,
    /// Verdicts on the tasks, in the order of the tasks.
    pub judged: Vec<TaskVerdict>,
    /// Patterns of the culprits whose time is left out.
    pub without: Vec<WildMatch>,
    /// Supply function.
    pub supply: MeasuredSupply<'a>,
    /// Records behind the supply function.
    pub records: Vec<&'a CpuRecord>,
}

/// Row for one length of window.
pub struct WindowRow {
    /// Length in nanoseconds.
    pub length_ns: u64,
    /// Least time left in any window, nanoseconds.
    pub left_ns: u64,
    /// Most unobserved time in any window, nanoseconds.
    pub unseen_ns: u64,
    /// Most time that each share took in any window, in nanoseconds. The windows of two shares may
    /// differ.
    pub shares_ns: Vec<u64>,
}

/// Window of some length that left the least time.
pub struct WorstWindow {
    /// Start of the window since its run began, nanoseconds.
    pub at_ns: u64,
    /// Recording of the window, if there are several.
    pub file: Option<String>,
    /// Time taken in the window, nanoseconds.
    pub taken_ns: u64,
    /// Unobserved time in the window, in nanoseconds; it may have been taken too.
    pub unseen_ns: u64,
    /// Culprits with their times, largest first.
    pub by: Vec<String>,
}
