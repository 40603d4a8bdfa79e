//! Writes an interval log of HdrHistogram. For each second, the log has histograms of lengths,
//! which the tools of HdrHistogram can add up.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use jiff::Timestamp;
use vmnoise_events::{MeasuringCommand, RunFacts};
use vmnoise_explain::{Interval, TracedExit};

use crate::error::{ExportError, io_error};
use crate::whole_file::{Readers, WholeFile};

/// Number of digits that are kept of each length, as in all percentiles of vmnoise.
const DIGITS: u8 = 3;
/// Longest length in nanoseconds: 146 years, more than HdrHistogram's tools accept.
const LONGEST_NS: u64 = 1 << 62;
/// Tag for all exits whose reason has no name. They share one tag, because a damaged stream may
/// contain many unknown reasons.
const NAMELESS: &str = "unknown";

/// A log of HdrHistogram (HistogramLogWriter.java, format 1.3), with a line for each second and
/// tag. A line has a histogram of lengths in nanoseconds (V2 encoding, compressed, base64). Lines
/// without a tag contain all gaps, all latencies to user space, or all exits. For wake-ups, the tag
/// `irq` marks latencies until the timer's interrupt, and `thread` until the switch to the task.
/// For exits, the tag is the reason.
#[derive(Debug)]
pub struct IntervalLog {
    path: PathBuf,
    file: WholeFile,
    /// Histograms of the current second, by tag. The first one has no tag.
    open: BTreeMap<Option<&'static str>, Histogram<u64>>,
    /// Begin of the first second, CLOCK_MONOTONIC in nanoseconds.
    begin_ns: Option<u64>,
}

impl IntervalLog {
    /// Creates a log in this file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(path: &Path, facts: &RunFacts) -> Result<IntervalLog, ExportError> {
        let file = WholeFile::create(path, Readers::Anyone).map_err(io_error(path))?;
        let mut log = IntervalLog {
            path: path.to_owned(),
            file,
            open: BTreeMap::new(),
            begin_ns: None,
        };
        let what = match facts.workload {
            MeasuringCommand::Timerlat => {
                "latencies until user space (tags: until irq, until thread)"
            }
            MeasuringCommand::Exits => "exits that were reported one by one (tags: their reasons)",
            MeasuringCommand::Microvm | MeasuringCommand::Osnoise | MeasuringCommand::Observed => {
                "gaps"
            }
        };
        let version = &facts.tool_version;
        let mut builder = IntervalLogWriterBuilder::new();
        builder
            .add_comment("[Histogram log format version 1.3]")
            .add_comment(&format!(
                "[vmnoise {version}: {what}; all lengths in nanoseconds]"
            ));
        let started: Option<Timestamp> = facts.started_at.parse().ok();
        if let Some(started) = started {
            builder.with_start_time(SystemTime::from(started));
        }
        let mut header = Vec::new();
        let mut serializer = V2DeflateSerializer::new();
        let begun = builder.begin_log_with(&mut header, &mut serializer);
        begun.map_err(io_error(path))?;
        header.extend_from_slice(
            b"\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
        );
        log.put(&header)?;
        Ok(log)
    }

    /// Adds a gap or a wake-up.
    pub fn interval(&mut self, interval: &Interval) {
        self.record(None, interval.dur_ns);
        if interval.wakeup().is_some() {
            let [irq_ns, thread_ns, _] = interval.latencies_ns();
            for (tag, ns) in [("irq", irq_ns), ("thread", thread_ns)] {
                if let Some(ns) = ns {
                    self.record(Some(tag), ns);
                }
            }
        }
    }

    /// Adds the length of an exit to two histograms: that of all exits, and that of the exit's
    /// reason.
    pub fn exit(&mut self, exit: &TracedExit) {
        let exit = &exit.exit.exit;
        let reason = match exit.reason.name() {
            Cow::Borrowed(name) => name,
            Cow::Owned(_) => NAMELESS,
        };
        self.record(None, exit.dur_ns());
        self.record(Some(reason), exit.dur_ns());
    }

    fn record(&mut self, tag: Option<&'static str>, ns: u64) {
        let histogram = self.open.entry(tag).or_insert_with(empty);
        let recorded = histogram.record(ns.min(LONGEST_NS));
        recorded.expect("it grows with what it is given");
    }

    /// Ends the second between these instants (CLOCK_MONOTONIC in ns), and writes the second's
    /// histograms.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn period(&mut self, (from_ns, to_ns): (u64, u64)) -> Result<(), ExportError> {
        let begin_ns = *self.begin_ns.get_or_insert(from_ns);
        let since = Duration::from_nanos(from_ns.saturating_sub(begin_ns));
        let length = Duration::from_nanos(to_ns.saturating_sub(from_ns));
        // A second without events gets an empty histogram.
        self.open.entry(None).or_insert_with(empty);
        let mut lines = Vec::new();
        let mut serializer = V2DeflateSerializer::new();
        let builder = IntervalLogWriterBuilder::new();
        let mut writer = builder
            .begin_log_with(&mut lines, &mut serializer)
            .map_err(io_error(&self.path))?;
        for (tag, histogram) in std::mem::take(&mut self.open) {
            let tag = tag.and_then(Tag::new);
            let written = writer.write_histogram(&histogram, since, length, tag);
            written.map_err(|error| io_error(&self.path)(io::Error::other(error.to_string())))?;
        }
        self.put(&lines)
    }

    /// Writes the number of lost events, and ends the log.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self, lost_events: u64, complete: bool) -> Result<(), ExportError> {
        self.comment(format_args!("[Lost events: {lost_events}]"))?;
        if !complete {
            self.comment("[Cut off: the run went on]")?;
        }
        self.file.finish().map_err(io_error(&self.path))
    }

    fn comment(&mut self, text: impl Display) -> Result<(), ExportError> {
        self.put(format!("#{text}\n").as_bytes())
    }

    fn put(&mut self, lines: &[u8]) -> Result<(), ExportError> {
        self.file.write_all(lines).map_err(io_error(&self.path))
    }
}

fn empty() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("so many digits are allowed")
}
