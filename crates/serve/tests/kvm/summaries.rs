//! Tests of the hourly summaries, which the Parquet library reads here.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use vmnoise_host::Host;
use vmnoise_testbed::{Disturber, VmnoiseRun};

use crate::harness::{Metrics, PROGRAM, Serve};

/// Values of a row, by the name of the column.
pub type SummaryRow = BTreeMap<String, Field>;

/// Returns all files below a folder.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let files = entries.flat_map(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path)
        } else {
            vec![path]
        }
    });
    files.collect()
}

/// Returns all rows of a file.
pub fn rows(file: &Path) -> Vec<SummaryRow> {
    let reader = SerializedFileReader::new(File::open(file).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    let rows = rows.map(|row| row.unwrap().into_columns().into_iter().collect());
    rows.collect()
}

fn text<'a>(row: &'a SummaryRow, column: &str) -> &'a str {
    match &row[column] {
        Field::Str(text) => text,
        _ => "",
    }
}

fn seconds(row: &SummaryRow, column: &str) -> f64 {
    match row[column] {
        Field::Long(ns) => Duration::from_nanos(ns.try_into().unwrap()).as_secs_f64(),
        _ => panic!("no {column} in {row:?}"),
    }
}

/// Checks the sums of a VM at its end. Each sum must be at least the value of an earlier scrape. It
/// must be at most this value plus `later`, the seconds since that scrape.
fn assert_says_what_the_metrics_said(rows: &[SummaryRow], vm: &str, metrics: &Metrics, later: f64) {
    let of = |name: &str, labels: &str| metrics.of(&format!("{name}{{vm=\"{vm}\",{labels}}}"));
    let about = |about: &str| -> Vec<&SummaryRow> {
        let ours = |row: &&SummaryRow| text(row, "about") == about && text(row, "vm") == vm;
        rows.iter().filter(ours).collect()
    };
    let said = about("vm");
    assert_eq!(said.len(), 1, "{rows:?}");
    let mut sums = Vec::new();
    for (column, name, label) in [
        (
            "running_ns",
            "vmnoise_vcpu_time_seconds_total",
            "state=\"running\"",
        ),
        (
            "preempted_ns",
            "vmnoise_vcpu_lost_seconds_total",
            "share=\"preempted\"",
        ),
        (
            "unseen_ns",
            "vmnoise_vcpu_lost_seconds_total",
            "share=\"unseen\"",
        ),
    ] {
        sums.push((column, seconds(said[0], column), of(name, label)));
    }
    let culprits = about("culprit");
    let busy = culprits
        .iter()
        .find(|row| text(row, "culprit") == "lab-disturb");
    assert_eq!(text(busy.unwrap(), "culprit_kind"), "foreign");
    let name = "vmnoise_vcpu_culprit_seconds_total";
    let by_metrics = of(name, "kind=\"foreign\",culprit=\"lab-disturb\"");
    sums.push((
        "culprit_ns",
        seconds(busy.unwrap(), "culprit_ns"),
        by_metrics,
    ));
    for (what, told, before) in sums {
        println!("{what}: {told} s, {before} s by metrics before");
        assert!(
            told >= before && told <= before + later,
            "{what}: {told}, {before}"
        );
    }
    let all: f64 = culprits.iter().map(|row| seconds(row, "culprit_ns")).sum();
    // The culprits add up to the share, except for rounding errors of the sum.
    assert!(
        (all - seconds(said[0], "preempted_ns")).abs() < 1e-6,
        "{all}"
    );
    assert!(
        about("wait")
            .iter()
            .any(|row| matches!(row["waits"], Field::Long(1..)))
    );
}

#[test]
fn what_ends_within_an_hour_is_told_of_in_its_folder_and_its_threads_can_do_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let cpu = *Host::here().allowed_cpus().unwrap().last().unwrap();
    let mut serve = Command::new(PROGRAM);
    serve
        .args(["--listen", "127.0.0.1:0", "--summaries"])
        .arg(folder.path());
    let serve = Serve::of(&mut serve);
    let run = VmnoiseRun::microvm(cpu, &["--duration", "60s"]).unwrap();
    let vm = format!("vmnoise:{}", run.pid());
    serve.wait_for(&format!(
        "vmnoise_vcpu_time_seconds_total{{vm=\"{vm}\",state=\"running\"}}"
    ));
    let busy = Disturber::busy(cpu).unwrap();
    sleep(Duration::from_secs(3));
    let scraped = Instant::now();
    let metrics = serve.metrics();
    for (name, value) in [
        ("delivered_total", 0.0),
        ("dropped_total", 0.0),
        ("waiting", 0.0),
    ] {
        let said = metrics.beginning(&format!("vmnoise_summaries_{name}"));
        assert_eq!(said, [("", value)], "{name}");
    }
    let threads = fs::read_dir(format!("/proc/{}/task", serve.pid())).unwrap();
    let threads = threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("status")));
    let threads: Vec<String> = threads.map(Result::unwrap).collect();
    let deliverer = threads
        .iter()
        .find(|status| status.contains("Name:\tsummaries"));
    let deliverer = deliverer.unwrap();
    assert!(
        deliverer.contains("CapEff:\t0000000000000000"),
        "{deliverer}"
    );
    assert!(deliverer.contains("Seccomp:\t2"), "{deliverer}");
    assert!(serve.end().success());
    // A wait that continues after the scrape is counted completely when it ends.
    let goes_on = metrics.of(&format!("vmnoise_vcpu_waiting_seconds{{vm=\"{vm}\"}}"));
    let later = scraped.elapsed().as_secs_f64() + goes_on;
    drop((busy, run));

    // Each file is complete, in the right folder, and alone there. A second file exists if the hour
    // ended during the test.
    let files = files(folder.path());
    assert!(files.len() == 1 || files.len() == 2, "{files:?}");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = format!("host={}", host.trim());
    for file in &files {
        let place = file.strip_prefix(folder.path()).unwrap();
        let names: Vec<_> = place.iter().map(|name| name.to_str().unwrap()).collect();
        assert!(
            names[0] == "hours" && names[1].starts_with("date=20"),
            "{names:?}"
        );
        assert!(
            names[2] == host && names[3].ends_with("Z.parquet"),
            "{names:?}"
        );
    }
    if let [file] = &files[..] {
        let rows = rows(file);
        let about_host = rows.iter().filter(|row| text(row, "about") == "host");
        assert_eq!(about_host.count(), 1);
        assert!(rows.iter().all(|row| row["is_whole"] == Field::Bool(false)));
        assert_says_what_the_metrics_said(&rows, &vm, &metrics, later);
    }
}

#[test]
fn a_place_that_cannot_be_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let no_folder = file.join("fleet");
    for (place, said) in [
        (no_folder.to_str().unwrap(), "making the folder"),
        ("ftp://host/fleet", "name a folder, or s3://BUCKET/"),
        ("file:///fleet", "name a folder, or s3://BUCKET/"),
    ] {
        let serve = Command::new(PROGRAM)
            .args(["--listen", "127.0.0.1:0", "--summaries", place])
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&serve.stderr);
        assert!(
            serve.status.code() == Some(1) && stderr.contains(said),
            "{stderr}"
        );
    }
}
