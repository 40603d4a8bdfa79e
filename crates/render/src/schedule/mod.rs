//! Results of `schedule`: the CPU time left to tasks, and whether the tasks meet their deadlines.

pub mod csv;
pub mod document;
mod supply;
pub mod text;
mod words;

use vmnoise_events::Share;
use vmnoise_events::coverage::Coverage;
use vmnoise_predict::CpuRecord;
use vmnoise_predict::schedule::{TaskSet, TaskVerdict};
use vmnoise_predict::supply::MeasuredSupply;
use wildmatch::WildMatch;

pub use self::supply::is_called;

/// Result of `schedule`.
#[derive(Debug)]
pub struct ScheduleResult<'a> {
    /// CPUs in ascending order.
    pub cpus: Vec<CpuSupply<'a>>,
    /// Tasks that are judged; `None` if the user named no tasks.
    pub set: Option<&'a TaskSet>,
    /// Assumptions about the tasks.
    pub notes: &'a [String],
    /// Name patterns of culprits whose time does not count as taken.
    pub without: &'a [String],
}

/// CPU time that one CPU left to its tasks.
#[derive(Debug)]
pub struct CpuSupply<'a> {
    /// Number of the CPU.
    pub cpu: u32,
    /// Paths of the recordings of the CPU.
    pub files: Vec<&'a str>,
    /// Rows, one for each window length; empty if the output format has no rows.
    pub rows: Vec<WindowRow>,
    /// Shares that [`WindowRow::shares_ns`] lists, in this order.
    pub shares: Vec<Share>,
    /// Smallest and largest threshold of the recordings, in nanoseconds. No recording contains gaps
    /// below the smallest threshold. Not all recordings contain gaps below the largest threshold.
    pub thresholds_ns: (u64, u64),
    /// Coverage of each recording of the CPU's gaps.
    pub of_gaps: Vec<Coverage>,
    /// Coverage of each recording of the CPU's timer latencies.
    pub of_latencies: Vec<Coverage>,
    /// Unobserved time, in nanoseconds.
    pub unseen_ns: u64,
    /// Worst latency of its timers, in nanoseconds; `None` without a recording of this machine.
    pub blocking_ns: Option<u64>,
    /// Verdicts on the tasks, in the order of the tasks.
    pub judged: Vec<TaskVerdict>,
    /// Name patterns of culprits whose time does not count as taken.
    pub without: Vec<WildMatch>,
    /// Supply function: the CPU time that was left in windows of each length.
    pub supply: MeasuredSupply<'a>,
    /// Recorded gaps from which the supply function is computed.
    pub records: Vec<&'a CpuRecord>,
}

/// Row for one window length.
#[derive(Debug)]
pub struct WindowRow {
    /// Length of the windows, in nanoseconds.
    pub length_ns: u64,
    /// Least time left in any window of this length, in nanoseconds.
    pub left_ns: u64,
    /// Most unobserved time in any window of this length, in nanoseconds.
    pub unseen_ns: u64,
    /// Most time that each share took in any window of this length, in nanoseconds. Each share may
    /// have another worst window.
    pub shares_ns: Vec<u64>,
}

/// Window that left the least time of all windows of its length.
#[derive(Debug)]
pub struct WorstWindow {
    /// Start of the window, in nanoseconds after the start of its run.
    pub at_ns: u64,
    /// Path of the recording that contains the window; `None` if there is only one recording.
    pub file: Option<String>,
    /// Time taken in the window, in nanoseconds.
    pub taken_ns: u64,
    /// Unobserved time in the window, in nanoseconds. Others may have taken this time, too.
    pub unseen_ns: u64,
    /// Culprits with their times, largest first.
    pub by: Vec<String>,
}
