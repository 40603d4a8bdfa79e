//! Tests of the same timelines with Perfetto's trace processor and SQL: the program that people use
//! must read the same as its definitions (`read.py`).

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;
use tempfile::TempDir;

use super::{Track, export, pair, read, timers};

/// Queries, by the fields of `Answers`.
const QUESTIONS: &[(&str, &str)] = &[
    (
        "slices",
        "SELECT s.id, coalesce(p.name, '') AS 'group', t.name AS row, s.name, ts, dur, depth
         FROM slice s JOIN track t ON s.track_id = t.id LEFT JOIN track p ON t.parent_id = p.id
         ORDER BY ts, s.id",
    ),
    (
        "overlaps",
        "SELECT * FROM (
             SELECT *, lag(ts + dur) OVER (PARTITION BY track_id, depth ORDER BY ts, id) AS free
             FROM slice)
         WHERE dur < 0 OR ts < free",
    ),
    (
        "outside_of_parents",
        "SELECT * FROM slice s JOIN slice p ON s.parent_id = p.id
         WHERE s.ts < p.ts OR s.ts + s.dur > p.ts + p.dur",
    ),
    (
        "notes",
        "SELECT s.id, key, int_value AS ns FROM slice s JOIN args USING (arg_set_id)",
    ),
    (
        "arrows",
        "SELECT o.id AS 'out', i.id AS 'in' FROM flow f
         LEFT JOIN slice o ON f.slice_out = o.id LEFT JOIN slice i ON f.slice_in = i.id",
    ),
    (
        "counts",
        "SELECT p.name AS 'group', t.name AS row, ts, value
         FROM counter c JOIN track t ON c.track_id = t.id JOIN track p ON t.parent_id = p.id",
    ),
    (
        "clocks",
        "SELECT str_value AS name FROM metadata WHERE name = 'trace_time_clock_id'
             AND str_value IS NOT NULL
         UNION SELECT clock_name FROM metadata JOIN clock_snapshot ON clock_id = int_value
             WHERE name = 'trace_time_clock_id'",
    ),
    (
        "faults",
        "SELECT name, severity, value FROM stats
         WHERE severity IN ('error', 'data_loss') AND value != 0",
    ),
];

#[derive(Debug, Deserialize)]
struct Answers {
    slices: Vec<Slice>,
    overlaps: Vec<serde_json::Value>,
    outside_of_parents: Vec<serde_json::Value>,
    notes: Vec<Note>,
    arrows: Vec<Arrow>,
    counts: Vec<Count>,
    clocks: Vec<Clock>,
    faults: Vec<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
struct Slice {
    id: usize,
    group: String,
    row: String,
    name: String,
    ts: u64,
    dur: u64,
    depth: usize,
}

#[derive(Debug, Deserialize)]
struct Note {
    id: usize,
    key: String,
    ns: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Arrow {
    #[serde(rename = "out")]
    from: usize,
    #[serde(rename = "in")]
    to: usize,
}

#[derive(Debug, Deserialize, PartialEq, PartialOrd)]
struct Count {
    group: String,
    row: String,
    ts: u64,
    value: f64,
}

#[derive(Debug, Deserialize)]
struct Clock {
    name: String,
}

fn asked(trace: &Path) -> Answers {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut node = Command::new("node")
        .arg(tests.join("perfetto/ask.mjs"))
        .arg(tests.join("../../../target/node/package"))
        .arg(trace)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let questions: serde_json::Map<_, _> = QUESTIONS
        .iter()
        .map(|(name, sql)| ((*name).to_owned(), (*sql).into()))
        .collect();
    let questions = serde_json::to_vec(&questions).unwrap();
    node.stdin.take().unwrap().write_all(&questions).unwrap();
    let said = node.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{errors}");
    serde_json::from_slice(&said.stdout).unwrap()
}

/// Slice with all its data.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Reported {
    path: [String; 2],
    name: String,
    span_ns: (u64, u64),
    depth: usize,
    notes: BTreeMap<String, u64>,
}

/// Returns the names of a track's group and of the track. The mark of the origin belongs to no
/// group.
fn group_and_row(track: &Track) -> [String; 2] {
    match &track.path[..] {
        [row] => [String::new(), row.clone()],
        [group, row] => [group.clone(), row.clone()],
        path => panic!("a track below more than one group: {path:?}"),
    }
}

/// Returns the slices, and the arrows between them, according to the definitions.
fn as_defined(tracks: &[Track]) -> (BTreeSet<Reported>, BTreeSet<[Reported; 2]>) {
    let mut slices = Vec::new();
    for track in tracks {
        for slice in &track.slices {
            let reported = Reported {
                path: group_and_row(track),
                name: slice.name.clone(),
                span_ns: (slice.start, slice.end),
                depth: slice.depth,
                notes: slice.notes.clone(),
            };
            slices.push((reported, &slice.flows));
        }
    }
    let mut ends = BTreeMap::<u64, Vec<Reported>>::new();
    for (reported, flows) in &slices {
        for flow in *flows {
            ends.entry(*flow).or_default().push(reported.clone());
        }
    }
    let arrows = ends.into_values().map(|mut ends| {
        ends.sort();
        <[Reported; 2]>::try_from(ends).unwrap()
    });
    let arrows = arrows.collect();
    (
        slices.into_iter().map(|(reported, _)| reported).collect(),
        arrows,
    )
}

/// Returns the same according to the trace processor.
fn as_processed(answers: &Answers) -> (BTreeSet<Reported>, BTreeSet<[Reported; 2]>) {
    let mut slices = BTreeMap::new();
    for slice in &answers.slices {
        let reported = Reported {
            path: [slice.group.clone(), slice.row.clone()],
            name: slice.name.clone(),
            span_ns: (slice.ts, slice.ts + slice.dur),
            depth: slice.depth,
            notes: BTreeMap::new(),
        };
        slices.insert(slice.id, reported);
    }
    for note in &answers.notes {
        // The processor reads a category as an argument too.
        if let (Some(key), Some(ns)) = (note.key.strip_prefix("debug."), note.ns) {
            let reported = slices.get_mut(&note.id).unwrap();
            reported.notes.insert(key.to_owned(), ns);
        }
    }
    let arrows = answers.arrows.iter().map(|arrow| {
        let mut ends = [slices[&arrow.from].clone(), slices[&arrow.to].clone()];
        ends.sort();
        ends
    });
    let arrows = arrows.collect();
    (slices.into_values().collect(), arrows)
}

/// Exports these recordings and compares both readings of the trace.
fn compare(folder: &TempDir, recordings: &str) -> Answers {
    let trace = export(folder, recordings, 0);
    let (tracks, mut answers) = (read(&trace), asked(&trace));
    assert!(answers.faults.is_empty(), "{:?}", answers.faults);
    assert!(answers.overlaps.is_empty(), "{:?}", answers.overlaps);
    let outside = &answers.outside_of_parents;
    assert!(outside.is_empty(), "{outside:?}");
    let clocks: Vec<&str> = answers.clocks.iter().map(|clock| &clock.name[..]).collect();
    assert_eq!(clocks, ["MONOTONIC"]);
    let (defined, processed) = (as_defined(&tracks), as_processed(&answers));
    assert_eq!(processed.0, defined.0);
    assert_eq!(processed.1, defined.1);
    assert_eq!(answers.slices.len(), defined.0.len(), "alike in all");
    let count = |track: &Track, (ts, value): &(u64, i64)| Count {
        group: track.path[0].clone(),
        row: track.path[1].clone(),
        ts: *ts,
        value: *value as f64,
    };
    let by_definition = tracks.iter().flat_map(|track| {
        track
            .counts
            .iter()
            .map(move |reported| count(track, reported))
    });
    let mut by_definition: Vec<Count> = by_definition.collect();
    by_definition.sort_by(|one, other| one.partial_cmp(other).unwrap());
    let counts = &mut answers.counts;
    counts.sort_by(|one, other| one.partial_cmp(other).unwrap());
    assert_eq!(*counts, by_definition);
    answers
}

#[test]
fn it_reads_a_guest_and_its_host() {
    let folder = pair();
    let answers = compare(&folder, "guest.vmn host.vmn");
    assert!(!answers.arrows.is_empty() && !answers.counts.is_empty());
    assert!(!compare(&folder, "tasks.vmn host.vmn").arrows.is_empty());
}

#[test]
fn it_reads_late_tasks_of_a_guest_and_its_host() {
    let answers = compare(&pair(), "tasks.vmn host.vmn");
    assert!(!answers.arrows.is_empty());
    assert!(answers.slices.iter().any(|slice| slice.depth == 1));
}

#[test]
fn it_reads_the_two_alone() {
    let folder = pair();
    assert!(!compare(&folder, "guest.vmn").counts.is_empty());
    assert!(!compare(&folder, "host.vmn").arrows.is_empty());
}

#[test]
fn it_reads_wake_ups_with_their_phases() {
    let folder = tempfile::tempdir().unwrap();
    timers::write(&folder.path().join("timer.vmn"));
    let answers = compare(&folder, "timer.vmn");
    assert!(answers.slices.iter().any(|slice| slice.depth == 1));
}
