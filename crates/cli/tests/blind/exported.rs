//! Checks that a data set has the blind spots of the recording that was exported.

use std::path::Path;

use serde_json::Value;
use vmnoise_events::{Loss, LossKind, MeasuringCommand};

use super::world::{BlindWorld, By, HiddenPart, record};
use super::{document, kinds, reasons, vmnoise};
use crate::many_gaps::{
    write_cut_off, write_damaged, write_failing, write_half_silent, write_jumping,
};

/// Exports `run.vmn` to the data set `fleet`.
fn export(folder: &Path, name: &str) {
    let output = vmnoise(folder, "export|run.vmn|--host|h|--parquet|fleet");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{name}: {said}");
}

/// Returns the blind spots that hide taken time, for the only CPU of a recording or a data set.
fn of_schedule(folder: &Path, source: &str) -> Value {
    document(folder, &format!("schedule|{source}"))["cpus"][0]["blind_spots"].take()
}

/// Returns the blind spots that hide losses of a rank, for a recording or a data set.
fn of_scale(folder: &Path, source: &str) -> Value {
    let line = format!("scale|{source}|--ranks|1|--step|10us");
    document(folder, &line)["recordings"][0]["blind_spots"].take()
}

/// Both commands refuse the run that paused, as a recording and as a data set.
#[test]
fn a_data_set_hides_what_its_recording_hides() {
    let kinds = kinds::all().into_iter();
    for kind in kinds.filter(|it| it.name != "paused run") {
        let (folder, name) = (tempfile::tempdir().unwrap(), kind.name);
        kind.write_blind(&folder.path().join("run.vmn"));
        export(folder.path(), name);
        let recorded = of_schedule(folder.path(), "run.vmn");
        assert_eq!(of_schedule(folder.path(), "fleet"), recorded, "{name}");
    }
}

type Write = fn(&Path);

/// Asserts that this command names the reason for a recording, and the same reason for its data
/// set.
fn assert_same(write: Write, reason: &str, spots: fn(&Path, &str) -> Value) {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("run.vmn"));
    export(folder.path(), reason);
    let recorded = spots(folder.path(), "run.vmn");
    assert!(
        reasons([&recorded]).contains(&reason.to_owned()),
        "{recorded}"
    );
    assert_eq!(spots(folder.path(), "fleet"), recorded, "{reason}");
}

#[test]
fn the_end_and_the_clocks_of_a_run_are_in_its_data_set() {
    let recordings: [(Write, &str); 3] = [
        (write_jumping, "clock_jumped"),
        (write_failing, "failed"),
        (write_cut_off, "cut_off"),
    ];
    for (write, reason) in recordings {
        assert_same(write, reason, of_schedule);
        assert_same(write, reason, of_scale);
    }
    assert_same(write_half_silent, "silent", of_scale);
}

#[test]
fn damage_is_in_the_data_set() {
    assert_same(write_damaged, "damaged", of_schedule);
}

/// The gaps of an observed thread are made of records, so each lost record may have been a gap.
#[test]
fn lost_records_of_an_observed_thread_are_gaps_in_its_data_set() {
    let write = |path: &Path| {
        let world = BlindWorld {
            by: By::Task,
            from_ns: 0,
        };
        let lost = Loss {
            kind: LossKind::RingFull,
            count: 500,
        };
        record(path, world, HiddenPart::Gaps, Some(lost), |facts| {
            facts.workload = MeasuringCommand::Observed;
            facts.witnesses.activity_steal = true;
        });
    };
    assert_same(write, "lost", of_schedule);
}
