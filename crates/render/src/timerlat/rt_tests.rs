//! JSON of rt-tests (file_version 1). In rt-tests, two of cyclictest's keys end with a colon by
//! mistake; here they do not.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};
use vmnoise_events::{HostFacts, RunFacts};
use vmnoise_explain::{LinearHistogram, Summary};

use super::columns::{ContextFigures, CpuColumns};

/// Document of one run in cyclictest's format.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct RtTestsDocument(Value);

impl RtTestsDocument {
    pub fn new<'a>(
        facts: &RunFacts,
        summary: &Summary,
        columns: &CpuColumns,
        nano: bool,
        histogram: impl Fn(u32) -> Option<&'a LinearHistogram>,
    ) -> RtTestsDocument {
        let per = if nano { 1 } else { 1_000 };
        let threads: Map<String, Value> = columns
            .iter()
            .enumerate()
            .map(|(index, (cpu, contexts))| {
                let thread = thread(cpu, &contexts.user, per, histogram(cpu));
                (index.to_string(), thread)
            })
            .collect();
        RtTestsDocument(json!({
            "file_version": 1,
            "cmdline": std::env::args().collect::<Vec<_>>().join(" "),
            "rt_test_version": format!("vmnoise {}", facts.tool_version),
            "start_time": rfc_2822(facts.started_at.parse().ok()),
            "end_time": rfc_2822(ended(facts, summary)),
            "return_code": i32::from(!summary.complete),
            "sysinfo": sysinfo(facts),
            "num_threads": threads.len(),
            "resolution_in_ns": i32::from(nano),
            "thread": threads,
        }))
    }
}

/// Returns a description of the measured machine. If the recording is of another machine, fields
/// that it lacks are null.
fn sysinfo(facts: &RunFacts) -> Value {
    let uname = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let HostFacts { name, kernel, .. } = &facts.host;
    let is_here = *kernel == text(uname.release())
        && name
            .as_ref()
            .is_none_or(|name| *name == text(uname.nodename()));
    let here = |field| is_here.then(|| text(field));
    let version = here(uname.version());
    let is_realtime = version.as_ref().map(|it| it.contains("PREEMPT_RT"));
    json!({
        "sysname": "Linux",
        "nodename": name.clone().or(here(uname.nodename()).map(Into::into)),
        "release": kernel,
        "version": version,
        "machine": here(uname.machine()),
        "realtime": is_realtime.map(i32::from),
    })
}

/// Returns the time at which the run ended: its start, plus the measured time of the CPU that was
/// measured longest.
fn ended(facts: &RunFacts, summary: &Summary) -> Option<Timestamp> {
    let started: Timestamp = facts.started_at.parse().ok()?;
    let longest_ns = summary.cpus.iter().filter_map(|cpu| cpu.runtime_ns).max()?;
    started.checked_add(Duration::from_nanos(longest_ns)).ok()
}

fn thread(
    cpu: u32,
    figures: &ContextFigures,
    per: u64,
    histogram: Option<&LinearHistogram>,
) -> Value {
    let counts = histogram.map_or(&[][..], LinearHistogram::counts);
    let counts = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    let counts: Map<String, Value> = counts
        .map(|(bucket, count)| (bucket.to_string(), json!(count)))
        .collect();
    let mean = figures.mean_ns().unwrap_or(0) as f64 / per as f64;
    json!({
        "histogram": counts,
        "cycles": figures.count,
        "min": figures.known(figures.min_ns / per).unwrap_or(0),
        "max": figures.max_ns / per,
        "avg": (mean * 100.0).round() / 100.0,
        "cpu": cpu,
        "node": 0,
    })
}

/// Formats a time as in `Sun, 22 Nov 2026 10:51:52 +0000`.
fn rfc_2822(time: Option<Timestamp>) -> String {
    let format = "%a, %d %b %Y %H:%M:%S +0000";
    time.map_or_else(String::new, |time| time.strftime(format).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_rt_tests_does() {
        let time = "2026-11-22T10:51:52Z".parse().ok();
        assert_eq!(rfc_2822(time), "Sun, 22 Nov 2026 10:51:52 +0000");
    }

    #[test]
    fn a_thread_is_reported_as_rt_tests_does() {
        let mut histogram = LinearHistogram::new(1_000, 30);
        for ns in [16_000, 16_999, 29_000, 31_000] {
            histogram.record(ns);
        }
        let figures = ContextFigures {
            count: 4,
            current_ns: 0,
            min_ns: 16_000,
            sum_ns: 92_999,
            max_ns: 31_000,
        };
        let expected = json!({
            "histogram": {"16": 2, "29": 1},
            "cycles": 4, "min": 16, "max": 31, "avg": 23.25, "cpu": 1, "node": 0,
        });
        assert_eq!(thread(1, &figures, 1_000, Some(&histogram)), expected);
    }
}
