//! Tests that text, JSON, page and timeline date a gap alike, from the same origin.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use vmnoise_recording::{RecordingReader, Writer};

use crate::join_pair::{Flaws, two_cpus, write_host, write_tasks};
use crate::report::{text_of, views_of};
use crate::timer_recording;

/// More than the number of gaps in any of these recordings, and of wake-ups on a page.
const LISTED: usize = 1_000;

/// Length of each gap or wake-up, by its CPU and its beginning in nanoseconds after the origin.
type Lengths = BTreeMap<(u64, u64), u64>;

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    two_cpus::write_guest(&path("guest.rec"));
    two_cpus::write_host(&path("host.rec"));
    write_tasks(&path("tasks.rec"));
    write_host(&path("tasks-host.rec"), Flaws::default());
    timer_recording::write(&path("timer.rec"));
    for name in ["guest.rec", "tasks.rec", "timer.rec"] {
        list_more(&path(name));
    }
    folder
}

/// Makes the explanation of this recording alone list as many gaps as that of a pair.
fn list_more(path: &Path) {
    let mut recorded = RecordingReader::open(path).unwrap();
    let mut facts = recorded.facts().clone();
    facts.options.top = LISTED;
    let copy = path.with_extension("copy");
    let mut writer = Writer::create(&copy, &facts).unwrap();
    while let ControlFlow::Continue(event) = recorded.next_event().unwrap() {
        writer.push(&event).unwrap();
    }
    writer.finish().unwrap();
    fs::rename(copy, path).unwrap();
}

fn vmnoise(folder: &Path, words: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
    command.current_dir(folder).args(words.split_whitespace());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{words}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Explains these recordings; two are a pair.
fn explain(folder: &Path, recordings: &str, format: &str) -> String {
    let top = match recordings.contains(' ') {
        true => format!("--top {LISTED}"),
        false => String::new(),
    };
    vmnoise(
        folder,
        &format!("explain {recordings} {top} --format {format}"),
    )
}

/// Returns the gaps and wake-ups in the document on these recordings.
fn document(folder: &Path, recordings: &str) -> Lengths {
    let json = serde_json::from_str(&explain(folder, recordings, "json")).unwrap();
    let mut dated = Lengths::new();
    find(&json, &mut dated);
    dated
}

/// Collects all gaps and wake-ups of a document.
fn find(json: &Value, dated: &mut Lengths) {
    match json {
        Value::Object(fields) => {
            let number = |key: &str| fields.get(key).and_then(Value::as_u64);
            if let (Some(cpu), Some(at_ns)) = (number("cpu"), number("at_ns")) {
                let dur_ns = number("dur_ns").or(number("latency_ns"));
                dated.insert((cpu, at_ns), dur_ns.unwrap());
            }
            fields.values().for_each(|value| find(value, dated));
        }
        Value::Array(values) => values.iter().for_each(|value| find(value, dated)),
        _ => {}
    }
}

fn has_time(document: &Lengths, cpu: u64, printed: &str) -> bool {
    let mut of_cpu = document.keys().filter(|(of, _)| *of == cpu);
    of_cpu.any(|(_, at_ns)| format!("{:.6}", *at_ns as f64 / 1e9) == printed)
}

/// Returns the CPU and the printed time of each `CPU n at t s` and `CPU n (vCPU …) at t s` in a
/// text.
fn times_of(text: &str) -> Vec<(u64, String)> {
    let times = text.match_indices(" at ").filter_map(|(place, word)| {
        let (at, _) = text[place + word.len()..].split_once(" s")?;
        at.parse::<f64>().ok()?;
        let before = &text[..place];
        let lane = before
            .strip_suffix(')')
            .and_then(|it| Some(it.rsplit_once(" (vCPU ")?.0));
        let (_, cpu) = lane.unwrap_or(before).rsplit_once("CPU ")?;
        Some((cpu.parse().ok()?, at.to_owned()))
    });
    times.collect()
}

/// Checks that each printed time of the page is in the document, and that the longest gaps are
/// drawn at the document's times.
fn assert_page_agrees(folder: &Path, recordings: &str) {
    const LONGEST: usize = 20;
    let document = document(folder, recordings);
    vmnoise(folder, &format!("report {recordings} -o page.html"));
    let page = fs::read_to_string(folder.join("page.html")).unwrap();
    let times = times_of(&text_of(&page));
    assert!(!times.is_empty(), "{recordings}");
    for (cpu, at) in &times {
        assert!(
            has_time(&document, *cpu, at),
            "{recordings}: CPU {cpu} at {at} s"
        );
    }
    let title = match recordings.starts_with('t') {
        true => "Lateness over time",
        false => "Noise over time",
    };
    let chart = &views_of(&page, title)[0];
    let cpus: Vec<u64> = chart["lanes"]
        .as_array()
        .unwrap()
        .iter()
        .map(cpu_of)
        .collect();
    let drawn = chart["spikes"].as_array().unwrap().iter().map(|spike| {
        let field = |place: usize| spike[place].as_u64().unwrap();
        ((cpus[field(0) as usize], field(1)), field(2))
    });
    let drawn: Lengths = drawn.collect();
    let mut longest: Vec<_> = document.iter().collect();
    longest.sort_by_key(|(_, dur_ns)| std::cmp::Reverse(**dur_ns));
    for (place, dur_ns) in longest.into_iter().take(LONGEST) {
        assert_eq!(drawn.get(place), Some(dur_ns), "{recordings}: {place:?}");
    }
}

/// Returns the CPU of a lane with the name `CPU n` or `CPU n (vCPU …)`.
fn cpu_of(lane: &Value) -> u64 {
    let name = lane.as_str().unwrap().strip_prefix("CPU ").unwrap();
    name.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_page_of_a_pair_dates_all_as_the_document_does_where_the_second_cpu_loses_time_first() {
    let folder = folder();
    let recordings = "guest.rec host.rec";
    let document = document(folder.path(), recordings);
    let first = |cpu: u64| {
        let of_cpu = document.keys().filter(|(of, _)| *of == cpu);
        of_cpu.map(|(_, at_ns)| *at_ns).min().unwrap()
    };
    // From the recordings' data: the first thread reads its clock 41 us after its recording began,
    // and a gap begins 200 ns before its exit. A reading between two anchors is off by at most 15
    // cycles.
    for (cpu, expected_ns) in [(1, 8_658_800), (0, 138_858_800)] {
        assert!(
            first(cpu).abs_diff(expected_ns) <= 15,
            "CPU {cpu}: {}",
            first(cpu)
        );
    }
    assert_page_agrees(folder.path(), recordings);
}

#[test]
fn a_page_dates_all_as_the_document_does() {
    let folder = folder();
    for recordings in [
        "guest.rec",
        "timer.rec",
        "tasks.rec",
        "tasks.rec tasks-host.rec",
    ] {
        assert_page_agrees(folder.path(), recordings);
    }
}

/// Even if the stream has no reading of a workload, or if a gap lies before the first one.
#[test]
fn what_is_before_the_first_reading_is_not_laid_on_the_origin() {
    let folder = folder();
    let path = folder.path().join("bare.rec");
    two_cpus::write_guest_without_readings(&path);
    list_more(&path);
    assert_page_agrees(folder.path(), "bare.rec");
    let document = document(folder.path(), "bare.rec");
    let at_origin: Vec<_> = document.keys().filter(|(_, at_ns)| *at_ns == 0).collect();
    assert_eq!(at_origin, [&(1, 0)]);
}

#[test]
fn the_text_dates_all_as_the_document_does() {
    let folder = folder();
    for recordings in ["guest.rec host.rec", "guest.rec"] {
        let document = document(folder.path(), recordings);
        let text = explain(folder.path(), recordings, "text");
        let times = times_of(&text);
        assert_eq!(times.len(), document.len(), "{text}");
        for (cpu, at) in times {
            assert!(has_time(&document, cpu, &at), "CPU {cpu} at {at} s");
        }
    }
}

mod engine {
    use super::*;
    use crate::perfetto::{exported, track};

    const ORIGIN: &str = "0 s of text, JSON and page";

    #[test]
    fn a_timeline_marks_the_origin_from_which_the_document_counts() {
        let folder = folder();
        for (recordings, group, row, bound_ns) in [
            ("guest.rec", "CPU ", "gaps", 0),
            ("timer.rec", "CPU ", "wake-ups", 0),
            // Converted to the host's clock, so each end is off by half a bracket of both sides'
            // anchors.
            ("guest.rec host.rec", "guest CPU ", "gaps", 60),
        ] {
            let document = document(folder.path(), recordings);
            let tracks = exported(&folder, recordings, 0);
            let mut marks = tracks.iter().filter(|track| track.path == [ORIGIN]);
            let [mark] = &marks.next().expect("the origin").slices[..] else {
                panic!("{recordings}: more than one origin");
            };
            assert_eq!(mark.start, mark.end);
            let mut seen = 0;
            for ((cpu, at_ns), dur_ns) in &document {
                let of_cpu = track(&tracks, &format!("{group}{cpu}"), row);
                let found = of_cpu.slices.iter().any(|slice| {
                    let is_as_long = (slice.end - slice.start).abs_diff(*dur_ns) <= bound_ns;
                    let at = slice.start.checked_sub(mark.start);
                    is_as_long && at.is_some_and(|at| at.abs_diff(*at_ns) <= bound_ns)
                });
                assert!(found, "{recordings}: CPU {cpu}, {dur_ns} ns at {at_ns} ns");
                seen += 1;
            }
            assert!(seen > 5, "{recordings}");
        }
    }
}
