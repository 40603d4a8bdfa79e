//! What a CPU left to its tasks, and whether they keep their deadlines with it.

pub mod csv;
pub mod document;
pub mod text;
mod words;

use vmnoise_events::Share;
use vmnoise_events::coverage::Coverage;
use vmnoise_predict::Record;
use vmnoise_predict::schedule::{Judged, TaskSet};
use vmnoise_predict::supply::MeasuredSupply;
use wildmatch::WildMatch;

/// The result.
pub struct Scheduled<'a> {
    /// Ascending.
    pub cpus: Vec<CpuSupply<'a>>,
    /// The tasks that were asked about.
    pub set: Option<&'a TaskSet>,
    /// What was assumed of them.
    pub notes: &'a [String],
    /// Whose time is left out.
    pub without: &'a [String],
}

/// One CPU.
pub struct CpuSupply<'a> {
    /// Its number.
    pub cpu: u32,
    /// Its recordings.
    pub files: Vec<&'a str>,
    /// What each length of window left at least; none where nobody reads them.
    pub rows: Vec<Row>,
    /// Who has a column in them.
    pub shares: Vec<Share>,
    /// Gaps that are shorter are in none of the recordings, and in not all of them; nanoseconds.
    pub thresholds_ns: (u64, u64),
    /// What its recordings could see.
    pub of_gaps: Vec<Coverage>,
    /// What the recordings of its timers could see.
    pub of_latencies: Vec<Coverage>,
    /// For how long nobody looked, nanoseconds.
    pub unseen_ns: u64,
    /// The worst latency of its timers, nanoseconds; `None` without a recording of it.
    pub blocking_ns: Option<u64>,
    /// What is said of each task, in their order.
    pub judged: Vec<Judged>,
    /// Whose time is left out.
    pub without: Vec<WildMatch>,
    /// The function.
    pub supply: MeasuredSupply<'a>,
    /// What it is made of.
    pub records: Vec<&'a Record>,
}

/// One length of window.
pub struct Row {
    /// Nanoseconds.
    pub length_ns: u64,
    /// At least so much was left in each, nanoseconds.
    pub left_ns: u64,
    /// No more went by unseen in one, nanoseconds.
    pub unseen_ns: u64,
    /// The most that each share took in one, nanoseconds: not in the same one.
    pub shares_ns: Vec<u64>,
}

/// The window of some length that left least.
pub struct WorstWindow {
    /// Since its run began, nanoseconds.
    pub at_ns: u64,
    /// Of which run, if there are several.
    pub file: Option<String>,
    /// What was taken in it, nanoseconds.
    pub taken_ns: u64,
    /// What may have been taken in it besides, while nobody looked; nanoseconds.
    pub unseen_ns: u64,
    /// Who had how much of it, the largest first.
    pub by: Vec<String>,
}
