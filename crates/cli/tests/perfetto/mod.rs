//! Tests of timelines with Perfetto's own definitions: `read.py` fails unless there is one clock,
//! slices are balanced and never overlap, and each flow has both ends.

mod processor;
pub mod timers;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use tempfile::TempDir;

use crate::bombs::made::BOMBS;
use crate::join_pair;

#[derive(Debug, Deserialize)]
pub struct Track {
    pub path: Vec<String>,
    pub slices: Vec<Slice>,
    counts: Vec<(u64, i64)>,
}

#[derive(Debug, Deserialize)]
pub struct Slice {
    pub name: String,
    pub start: u64,
    pub end: u64,
    depth: usize,
    notes: BTreeMap<String, u64>,
    flows: Vec<u64>,
}

/// Exports the timeline of these recordings.
fn export(folder: &TempDir, recordings: &str, status: i32) -> PathBuf {
    let trace = folder.path().join("out.pftrace");
    let export = Command::new(env!("CARGO_BIN_EXE_vmnoise"))
        .arg("export")
        .args(recordings.split_whitespace())
        .arg("--perfetto")
        .arg(&trace)
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&export.stderr);
    assert_eq!(export.status.code(), Some(status), "{said}");
    trace
}

/// Reads a timeline with Perfetto's definitions.
fn read(trace: &Path) -> Vec<Track> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let read = Command::new("python3")
        .arg(tests.join("perfetto/read.py"))
        .arg(trace)
        .env("PYTHONPATH", tests.join("../../../target/python"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&read.stderr);
    assert!(read.status.success(), "{said}");
    serde_json::from_slice(&read.stdout).unwrap()
}

pub fn exported(folder: &TempDir, recordings: &str, status: i32) -> Vec<Track> {
    read(&export(folder, recordings, status))
}

pub fn track<'a>(tracks: &'a [Track], group: &str, row: &str) -> &'a Track {
    let mut found = tracks.iter().filter(|track| track.path == [group, row]);
    found.next().unwrap_or_else(|| panic!("no {group}/{row}"))
}

/// Returns the slices that an arrow connects with this one.
fn joined_with<'a>(slice: &Slice, track: &'a Track) -> Vec<&'a Slice> {
    let slices = track.slices.iter();
    let shares_flow = |other: &&Slice| other.flows.iter().any(|flow| slice.flows.contains(flow));
    slices.filter(shares_flow).collect()
}

fn pair() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    join_pair::write_guest(&folder.path().join("guest.vmn"));
    join_pair::write_tasks(&folder.path().join("tasks.vmn"));
    join_pair::write_host(&folder.path().join("host.vmn"), join_pair::Flaws::default());
    folder
}

fn exits_of(tracks: &[Track]) -> &Track {
    let mut found = tracks.iter();
    let exits = found.find(|track| track.path.last().unwrap() == "exits");
    exits.expect("the exits of a vCPU")
}

/// Returns whether arrows lead from this slice to exits, and from there to both tasks of the
/// thesis' exit.
fn is_held_by_the_thesis_tasks(late: &Slice, exits: &Track, tasks: &Track) -> bool {
    let exits = joined_with(late, exits).into_iter();
    let took = exits.flat_map(|exit| joined_with(exit, tasks));
    let took: Vec<&str> = took.map(|task| &task.name[..]).collect();
    took.contains(&"rcuc/3:30") && took.contains(&"ksoftirqd/3:31")
}

mod engine {
    use super::*;

    #[test]
    fn arrows_lead_from_a_guests_gap_to_the_exit_to_the_tasks_of_the_host() {
        let tracks = exported(&pair(), "guest.vmn host.vmn", 0);
        let gaps = track(&tracks, "guest CPU 0", "gaps");
        let exits = exits_of(&tracks);
        assert!(exits.path[0].starts_with("vCPU 0 of "), "{:?}", exits.path);
        let tasks = track(&tracks, "host CPU 3", "tasks");
        let held = |gap: &&Slice| is_held_by_the_thesis_tasks(gap, exits, tasks);
        let gap = gaps.slices.iter().find(held).expect("the thesis' gap");
        // All use one clock, so the causes of a gap overlap it.
        for exit in joined_with(gap, exits) {
            assert!(gap.start <= exit.end && exit.start <= gap.end, "{exit:?}");
            for task in joined_with(exit, tasks) {
                assert!(exit.start < task.end && task.start < exit.end, "{task:?}");
            }
        }
        let noise = track(&tracks, "guest CPU 0", "noise in a second");
        assert!(noise.counts.iter().any(|(_, ns)| *ns > 0));
        assert_eq!(noise.counts.last().map(|(_, ns)| *ns), Some(0));
    }

    #[test]
    fn arrows_lead_from_a_guests_late_task_to_the_tasks_of_the_host() {
        let tracks = exported(&pair(), "host.vmn tasks.vmn", 0);
        let wakeups = track(&tracks, "guest CPU 0", "wake-ups");
        let (exits, tasks) = (exits_of(&tracks), track(&tracks, "host CPU 3", "tasks"));
        let whole = wakeups.slices.iter().filter(|slice| slice.depth == 0);
        let held = |late: &&Slice| is_held_by_the_thesis_tasks(late, exits, tasks);
        let held: Vec<&Slice> = whole.clone().filter(held).collect();
        assert!(held.len() > 20, "{}", held.len());
        for late in &held {
            assert_eq!(late.notes.values().sum::<u64>(), late.end - late.start);
            assert_eq!(late.notes["irq: preempted ksoftirqd/3:31"], 20_362);
            let [exit] = joined_with(late, exits)[..] else {
                panic!("one exit made it late: {late:?}");
            };
            // The wake-up was due half a microsecond before the exit, on the same clock.
            assert!(exit.start.abs_diff(late.start + 500) < 100, "{exit:?}");
            let phase = wakeups
                .slices
                .iter()
                .find(|slice| slice.depth == 1 && slice.start == late.start);
            let phase = phase.expect("its first phase");
            assert_eq!(phase.name, "irq");
            assert!(exit.end < phase.end, "the interrupt came after the exit");
        }
        let in_time = whole
            .clone()
            .filter(|late| joined_with(late, exits).is_empty());
        assert!(in_time.count() > 1_000);
    }

    /// If only the first of them is drawn, the others must lose their arrows too.
    #[test]
    fn gaps_that_hold_one_another_leave_no_arrow_with_one_end() {
        let mut bombs = BOMBS.iter();
        let gaps = bombs.find(|it| it.name == "gaps that hold all that comes after them");
        let folder = tempfile::tempdir().unwrap();
        gaps.unwrap().write(&folder.path().join("it.vmn"), 50_000);
        let tracks = exported(&folder, "it.vmn", 0);
        let slices = tracks.iter().flat_map(|track| &track.slices);
        assert!(slices.map(|slice| slice.flows.len()).sum::<usize>() > 0);
    }

    #[test]
    fn a_gap_shows_its_budget() {
        let tracks = exported(&pair(), "guest.vmn", 0);
        let gaps = track(&tracks, "CPU 0", "gaps");
        assert!(gaps.slices.len() > 10);
        for gap in &gaps.slices {
            let parts_ns: u64 = gap.notes.values().sum();
            assert_eq!(parts_ns, gap.end - gap.start, "{gap:?}");
            let largest = gap.notes.values().max().unwrap();
            assert_eq!(gap.notes[&gap.name], *largest, "{gap:?}");
        }
    }

    #[test]
    fn exits_show_their_budgets() {
        let tracks = exported(&pair(), "host.vmn", 0);
        let exits = tracks
            .iter()
            .filter(|track| track.path.last().unwrap() == "exits");
        let exits = exits.flat_map(|track| &track.slices);
        let exits: Vec<&Slice> = exits.filter(|slice| slice.depth == 0).collect();
        assert!(!exits.is_empty());
        for exit in &exits {
            let parts_ns: u64 = exit.notes.values().sum();
            assert_eq!(parts_ns, exit.end - exit.start, "{exit:?}");
        }
        let tasks = track(&tracks, "CPU 3", "tasks");
        assert!(
            exits
                .iter()
                .any(|exit| !joined_with(exit, tasks).is_empty())
        );
    }

    /// A VMM may run two VMs one after the other in the same thread.
    #[test]
    fn vcpus_of_one_thread_are_two() {
        let folder = tempfile::tempdir().unwrap();
        let flaws = join_pair::Flaws {
            has_a_twin: true,
            shares_a_thread: true,
            ..join_pair::Flaws::default()
        };
        join_pair::write_host(&folder.path().join("host.vmn"), flaws);
        let tracks = exported(&folder, "host.vmn", 0);
        let count = |group: &str| {
            let slices = track(&tracks, group, "exits").slices.iter();
            slices.filter(|slice| slice.depth == 0).count()
        };
        let [web, twin] = ["web", "twin"].map(|vm| count(&format!("vCPU 0 of {vm} (thread 4170)")));
        assert!(web > 100 && web == twin, "{web} {twin}");
    }

    #[test]
    fn exits_show_what_they_consisted_of_in_its_order() {
        let tracks = exported(&pair(), "host.vmn", 0);
        let (exits, tasks) = (exits_of(&tracks), track(&tracks, "CPU 3", "tasks"));
        let (whole, pieces): (Vec<&Slice>, Vec<&Slice>) =
            exits.slices.iter().partition(|slice| slice.depth == 0);
        let mut divided = 0;
        for exit in whole {
            let inside = |piece: &&&Slice| exit.start <= piece.start && piece.end <= exit.end;
            let inside: Vec<&&Slice> = pieces.iter().filter(inside).collect();
            if inside.is_empty() {
                assert!(exit.notes.keys().eq(["kvm"]), "{exit:?}");
                continue;
            }
            divided += 1;
            let mut at_ns = exit.start;
            let mut budget = BTreeMap::new();
            for piece in inside {
                assert_eq!(piece.start, at_ns, "no holes");
                at_ns = piece.end;
                *budget.entry(piece.name.clone()).or_default() += piece.end - piece.start;
                if let Some(task) = piece.name.strip_prefix("preempted ") {
                    let ran = tasks.slices.iter().any(|slice| {
                        slice.name == task && slice.start <= piece.start && piece.end <= slice.end
                    });
                    assert!(ran, "{piece:?}");
                }
            }
            assert_eq!((at_ns, &budget), (exit.end, &exit.notes));
        }
        assert!(divided > 10, "{divided}");
    }

    #[test]
    fn a_wake_up_holds_its_phases() {
        let folder = tempfile::tempdir().unwrap();
        timers::write(&folder.path().join("timer.vmn"));
        let tracks = exported(&folder, "timer.vmn", 0);
        let wakeups = &track(&tracks, "CPU 1", "wake-ups").slices;
        let reported: Vec<(&str, usize, u64)> = wakeups
            .iter()
            .take(5)
            .map(|slice| (&slice.name[..], slice.depth, slice.end - slice.start))
            .collect();
        assert_eq!(
            reported,
            [
                ("wake-up", 0, 20_000),
                ("irq", 1, 5_000),
                ("handler", 1, 1_000),
                ("wakeup", 1, 9_000),
                ("return", 1, 5_000),
            ]
        );
        let interrupts = track(&tracks, "CPU 1", "interrupts");
        assert_eq!(joined_with(&wakeups[0], interrupts).len(), 1);
    }

    #[test]
    fn what_was_cut_off_still_is_a_whole_trace() {
        let folder = pair();
        let whole = fs::read(folder.path().join("guest.vmn")).unwrap();
        for eighth in 1..8 {
            let cut = &whole[..whole.len() * eighth / 8];
            fs::write(folder.path().join("cut.vmn"), cut).unwrap();
            let tracks = exported(&folder, "cut.vmn", 1);
            assert!(eighth < 3 || !track(&tracks, "CPU 0", "gaps").slices.is_empty());
        }
    }
}
