//! The JSON of rt-tests (file_version 1). Two of its keys end with a colon there, by mistake;
//! readers tolerate that, and ours do not.

use serde::Serialize;
use serde_json::{Map, Value, json};
use vmnoise_events::RunFacts;
use vmnoise_explain::{LinearHistogram, Summary};

use super::columns::{Columns, Figures};

/// One run as cyclictest tells it.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct Document(Value);

impl Document {
    pub fn new<'a>(
        facts: &RunFacts,
        summary: &Summary,
        columns: &Columns,
        nano: bool,
        histogram: impl Fn(u32) -> Option<&'a LinearHistogram>,
    ) -> Document {
        let per = if nano { 1 } else { 1_000 };
        let threads: Map<String, Value> = columns
            .iter()
            .enumerate()
            .map(|(index, (cpu, contexts))| {
                let thread = thread(cpu, &contexts.user, per, histogram(cpu));
                (index.to_string(), thread)
            })
            .collect();
        let uname = rustix::system::uname();
        let (release, version) = (uname.release(), uname.version().to_string_lossy());
        Document(json!({
            "file_version": 1,
            "cmdline": std::env::args().collect::<Vec<_>>().join(" "),
            "rt_test_version": format!("vmnoise {}", facts.tool_version),
            "start_time": rfc_2822(facts.started_at.parse().ok()),
            "end_time": rfc_2822(Some(jiff::Timestamp::now())),
            "return_code": i32::from(!summary.complete),
            "sysinfo": {
                "sysname": uname.sysname().to_string_lossy(),
                "nodename": uname.nodename().to_string_lossy(),
                "release": release.to_string_lossy(),
                "version": version,
                "machine": uname.machine().to_string_lossy(),
                "realtime": i32::from(version.contains("PREEMPT_RT")),
            },
            "num_threads": threads.len(),
            "resolution_in_ns": i32::from(nano),
            "thread": threads,
        }))
    }
}

fn thread(cpu: u32, figures: &Figures, per: u64, histogram: Option<&LinearHistogram>) -> Value {
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

/// As in `Sun, 22 Nov 2026 10:51:52 +0000`.
fn rfc_2822(time: Option<jiff::Timestamp>) -> String {
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
    fn a_thread_is_told_as_rt_tests_does() {
        let mut histogram = LinearHistogram::new(1_000, 30);
        for ns in [16_000, 16_999, 29_000, 31_000] {
            histogram.record(ns);
        }
        let figures = Figures {
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
