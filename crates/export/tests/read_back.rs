//! Writes a run and reads it back: unchanged, and with each of its bytes damaged.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use vmnoise_events::coverage::{ClockCoverage, RunEnd};
use vmnoise_events::{MeasuringCommand, Share, SourceId, fixtures};
use vmnoise_explain::{Detail, GapDetail, Interval, Part};
use vmnoise_export::{
    DataSetError, Encoding, GapRows, Partition, RunReport, RunTables, StoredCoverage, StoredCpus,
    StoredRun, runs,
};

const NAMES: [&str; 4] = [
    "local_timer:236",
    "kworker/1:6:18391",
    "a:b",
    "\u{1b}[2J\u{202e}",
];
/// The same names after they were read back.
const READ: [&str; 4] = [
    "local_timer:236",
    "kworker/1:6:18391",
    "a:b",
    "␛[2J\u{fffd}",
];
pub const GAPS: u64 = 12;
/// Clock that jumped twice, and then went back.
const CLOCK: ClockCoverage = ClockCoverage {
    bound_ns: Some(30),
    went_back_at_ns: Some(7_000_000),
    jumps: 2,
    undated_ns: 40_000,
};

/// Returns the parts of a gap: share, index of the name (`None` without a name), and length.
fn parts(nth: u64) -> Vec<(Share, Option<usize>, u64)> {
    let who = (nth % 4) as usize;
    vec![
        (Share::Thread, Some(who), 1_000 + nth),
        (Share::Hw, None, 300),
    ]
}

/// Writes a run of [`GAPS`] gaps into this folder.
pub fn write(folder: &Path) -> StoredRun {
    let mut facts = fixtures::facts(MeasuringCommand::Osnoise);
    facts.host.name = Some("node 1".into());
    let partition = Partition::of(&facts).unwrap();
    let mut tables = RunTables::create(folder, &partition, &facts, Encoding::Parquet).unwrap();
    for nth in 0..GAPS {
        let parts = parts(nth).into_iter();
        let parts: Vec<Part> = parts
            .map(|(share, who, ns)| Part {
                share,
                source: who.map(|who| SourceId(who as u32)),
                ns,
                count: 1,
                phase: None,
                host_cpu: None,
            })
            .collect();
        let gap = Interval {
            cpu: (nth % 2) as u32,
            start_mono_ns: 1_000_000 * nth,
            dur_ns: parts.iter().map(|part| part.ns).sum(),
            parts,
            witnessed: false,
            steal_clamped: false,
            hits_limit: false,
            detail: Detail::Gap(GapDetail::default()),
        };
        tables.interval(&gap, &|id| NAMES[id.0 as usize]).unwrap();
    }
    let reported = RunReport {
        complete: true,
        lost_events: 7,
        lost_gaps: Some(3),
        late_events: 2,
        end: RunEnd::Failed,
        planned_ns: Some(90_000_000),
        clock: CLOCK,
        is_damaged: true,
    };
    tables.finish(reported).unwrap();
    let mut runs = runs(folder).unwrap();
    assert_eq!(runs.len(), 1);
    runs.remove(0)
}

/// A gap and its parts. The gap has CPU, begin and length; a part has share, name and length.
pub type ReadGap = ((u32, u64, u64), Vec<(Share, String, u64)>);

/// Returns the gaps of a run.
pub fn read(run: &StoredRun) -> Result<Vec<ReadGap>, DataSetError> {
    let mut gaps: Vec<ReadGap> = Vec::new();
    run.each_gap(&mut |stored| match stored {
        GapRows::Gap(gap) => gaps.push(((gap.cpu, gap.start_mono_ns, gap.dur_ns), Vec::new())),
        GapRows::Part(part) => {
            let mut name = String::new();
            part.put_name(&mut name);
            gaps.last_mut().unwrap().1.push((part.share, name, part.ns));
        }
    })?;
    Ok(gaps)
}

#[test]
fn what_was_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let run = write(folder.path());
    assert_eq!(run.host, "node 1");
    let facts = run.facts().unwrap();
    assert_eq!(facts.workload, MeasuringCommand::Osnoise);
    assert_eq!((facts.lost_gaps, facts.lost_witnesses), (3, 4 + 2));
    let coverage = StoredCoverage {
        end: RunEnd::Failed,
        planned_ns: Some(90_000_000),
        clock: CLOCK,
        is_damaged: true,
    };
    assert_eq!(facts.coverage, Some(coverage));
    assert_eq!(run.cpus().unwrap(), StoredCpus::default());
    let expected = (0..GAPS).map(|nth| {
        let parts = parts(nth).into_iter();
        let parts: Vec<(Share, String, u64)> = parts
            .map(|(share, who, ns)| (share, who.map_or("", |who| READ[who]).to_owned(), ns))
            .collect();
        let dur_ns = parts.iter().map(|(.., ns)| ns).sum();
        (((nth % 2) as u32, 1_000_000 * nth, dur_ns), parts)
    });
    assert_eq!(read(&run).unwrap(), expected.collect::<Vec<ReadGap>>());
}

/// Damages each byte of a run's tables, one at a time. Each damage must cause an error or another
/// value. The Parquet library must not panic.
pub fn assert_no_damage_is_more_than_an_error(run: &StoredRun) {
    let mut panicked = Vec::new();
    for table in ["run", "gaps", "gap_parts"] {
        let path = run.folder.join(format!("{table}.parquet"));
        let whole = fs::read(&path).unwrap();
        for place in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[place] ^= if place % 2 == 0 { 0x01 } else { 0xff };
            fs::write(&path, damaged).unwrap();
            let result = catch_unwind(|| match table {
                "run" => drop(run.facts()),
                _ => drop(read(run)),
            });
            if result.is_err() {
                panicked.push((table, place));
            }
        }
        fs::write(&path, whole).unwrap();
    }
    assert_eq!(panicked, []);
}

#[test]
fn no_damaged_byte_is_more_than_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let run = write(folder.path());
    assert_no_damage_is_more_than_an_error(&run);
}
