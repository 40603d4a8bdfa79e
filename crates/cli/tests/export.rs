//! Tests of `vmnoise export` to tables, as a user runs it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::join_pair::{Flaws, write_guest, write_host, write_tasks};
use crate::perfetto::timers;

/// Returns the recordings of a guest and its host.
fn recordings() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_guest(&folder.path().join("guest.vmn"));
    write_tasks(&folder.path().join("tasks.vmn"));
    write_host(&folder.path().join("host.vmn"), Flaws::default());
    folder
}

fn export(folder: &TempDir, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
    command.current_dir(folder.path()).arg("export");
    command.args(words.split_whitespace()).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

/// Returns the folder of the only run with this workload.
fn run_of(data_set: &Path, host: &str, workload: &str) -> PathBuf {
    let runs = fs::read_dir(data_set.join(format!("host={host}"))).unwrap();
    let mut runs = runs.map(|run| run.unwrap().path());
    runs.find(|run| run.display().to_string().ends_with(workload))
        .unwrap()
}

/// Returns the rows of a table as maps of known values; no cell in these tests is quoted.
fn rows(run: &Path, table: &str) -> Vec<BTreeMap<String, String>> {
    let csv = fs::read_to_string(run.join(format!("{table}.csv"))).unwrap();
    let mut lines = csv.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let row = |line: &str| {
        let cells = header.iter().zip(line.split(','));
        let known = cells.filter(|(_, cell)| !cell.is_empty());
        known
            .map(|(name, cell)| ((*name).to_owned(), cell.to_owned()))
            .collect()
    };
    lines.map(row).collect()
}

fn ns(row: &BTreeMap<String, String>, column: &str) -> u64 {
    row[column].parse().unwrap()
}

#[test]
fn the_parts_of_a_gap_add_up_and_so_does_each_period() {
    let folder = recordings();
    let output = export(&folder, "guest.vmn --host a/b --csv out");
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("", ""));
    assert_eq!(output.status.code(), Some(0));
    let run = run_of(&folder.path().join("out"), "a%2Fb", "-spin");
    let gaps = rows(&run, "gaps");
    let parts = rows(&run, "gap_parts");
    assert!(gaps.len() > 10, "{}", gaps.len());
    let mut noise_ns = 0;
    for gap in &gaps {
        let parts = parts.iter().filter(|part| part["gap"] == gap["gap"]);
        let sum_ns: u64 = parts.map(|part| ns(part, "ns")).sum();
        assert_eq!(sum_ns, ns(gap, "dur_ns"), "{gap:?}");
        assert_eq!(gap["witnessed"], "false");
        noise_ns += sum_ns;
    }
    let periods = rows(&run, "periods");
    assert!(!periods.is_empty());
    let total_ns: u64 = periods.iter().map(|period| ns(period, "noise_ns")).sum();
    assert_eq!(total_ns, noise_ns);
    for period in &periods {
        // Unknown is not 0.
        assert!(!period.contains_key("preempted_ns"), "{period:?}");
        let shares = period.keys().filter(|name| {
            name.ends_with("_ns")
                && ![
                    "start_mono_ns",
                    "end_mono_ns",
                    "runtime_ns",
                    "noise_ns",
                    "max_gap_ns",
                ]
                .contains(&name.as_str())
        });
        let shares_ns: u64 = shares.map(|name| ns(period, name)).sum();
        assert_eq!(shares_ns, ns(period, "noise_ns"));
    }
    assert_eq!(rows(&run, "run")[0]["complete"], "true");
}

#[test]
fn a_guest_and_its_host_are_joined_in_whatever_order_they_come() {
    for words in ["guest.vmn host.vmn", "host.vmn guest.vmn"] {
        let folder = recordings();
        let output = export(&folder, &format!("{words} --host h --csv out"));
        assert_eq!(text(&output.stderr), "");
        let guest = run_of(&folder.path().join("out"), "h", "-spin");
        let gaps = rows(&guest, "gaps");
        assert!(gaps.iter().any(|gap| gap["witnessed"] == "true"));
        let parts = rows(&guest, "gap_parts");
        let of_host = parts.iter().filter(|part| part["share"] == "preempted");
        let tasks: BTreeSet<(&str, u64)> = of_host
            .map(|part| (&part["source"][..], ns(part, "source_number")))
            .collect();
        assert_eq!(tasks, BTreeSet::from([("ksoftirqd/3", 31), ("rcuc/3", 30)]));
        on_the_hosts_cpu(&parts);
        let host = run_of(&folder.path().join("out"), "h", "-vcpus");
        let exits = rows(&host, "exits");
        assert!(!exits.is_empty());
        let exit_parts = rows(&host, "exit_parts");
        for exit in &exits {
            let parts = exit_parts
                .iter()
                .filter(|part| part["exit"] == exit["exit"]);
            let sum_ns: u64 = parts.map(|part| ns(part, "ns")).sum();
            assert_eq!(sum_ns, ns(exit, "dur_ns"));
        }
    }
}

/// Checks that the host's parts name its CPU 3, and that other parts name no host CPU.
fn on_the_hosts_cpu(parts: &[BTreeMap<String, String>]) {
    for part in parts {
        let is_the_hosts = ["preempted", "host_irq"].contains(&part["share"].as_str());
        let expected = is_the_hosts.then_some("3");
        let found = part.get("host_cpu").map(String::as_str);
        assert_eq!(found, expected, "{part:?}");
    }
}

#[test]
fn a_guests_late_tasks_are_joined_with_their_host() {
    let folder = recordings();
    let output = export(&folder, "tasks.vmn host.vmn --host h --csv out");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    let guest = run_of(&folder.path().join("out"), "h", "-timer");
    let (wakeups, parts) = (rows(&guest, "wakeups"), rows(&guest, "wakeup_parts"));
    assert!(wakeups.iter().all(|late| late["witnessed"] == "true"));
    on_the_hosts_cpu(&parts);
    let mut sums_ns: BTreeMap<&str, u64> = BTreeMap::new();
    for part in &parts {
        *sums_ns.entry(&part["wakeup"]).or_default() += ns(part, "ns");
    }
    for late in &wakeups {
        assert_eq!(
            sums_ns[&late["wakeup"][..]],
            ns(late, "latency_ns"),
            "{late:?}"
        );
    }
    assert!(!rows(&run_of(&folder.path().join("out"), "h", "-vcpus"), "exits").is_empty());
    // Without the host's recording, the CPU of the host is unknown.
    let output = export(&folder, "tasks.vmn --host alone --csv out");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    let alone = run_of(&folder.path().join("out"), "alone", "-timer");
    assert!(
        rows(&alone, "wakeup_parts")
            .iter()
            .all(|part| !part.contains_key("host_cpu"))
    );
    assert!(
        rows(&alone, "wakeups")
            .iter()
            .all(|late| late["witnessed"] == "false")
    );
}

/// Checks with other programs.
mod engine {
    use super::*;

    #[test]
    fn duckdb_names_who_on_the_host_made_tasks_late() {
        let folder = recordings();
        let output = export(&folder, "tasks.vmn host.vmn --host h --parquet pair");
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
        let page = include_str!("../../../docs/data.md");
        let section = page.split_once("## Who on the host made a guest's tasks late\n");
        let query = section.unwrap().1.split_once("```sql\n").unwrap().1;
        let query = query.split_once("```").unwrap().0;
        let ask = "import duckdb, json, sys\n\
                   print(json.dumps(duckdb.sql(sys.argv[1]).fetchall(), default=int))";
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let asked = Command::new("python3")
            .args(["-c", ask, query])
            .env("PYTHONPATH", root.join("target/python"))
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(asked.status.success(), "{}", text(&asked.stderr));
        let rows: Value = serde_json::from_slice(&asked.stdout).unwrap();
        let count = rows[0][4].as_u64().unwrap();
        assert!(count > 20, "{rows}");
        let first = serde_json::json!(["ksoftirqd/3", 3, "irq", count * 20_362, count]);
        assert_eq!(rows[0], first);
        let sources: Vec<&str> = rows
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row[0].as_str().unwrap())
            .collect();
        assert_eq!(
            sources,
            ["ksoftirqd/3", "local_timer", "rcuc/3", "irq_work"]
        );
    }
}

#[test]
fn what_was_cut_off_is_exported_as_far_as_it_goes() {
    let folder = recordings();
    let whole = fs::read(folder.path().join("guest.vmn")).unwrap();
    fs::write(folder.path().join("cut.vmn"), &whole[..whole.len() / 2]).unwrap();
    let output = export(&folder, "cut.vmn --host h --csv out --parquet out");
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.starts_with("vmnoise: cut.vmn: ") && said.lines().count() == 1,
        "{said}"
    );
    let run = run_of(&folder.path().join("out"), "h", "-spin");
    assert!(!rows(&run, "gaps").is_empty());
    assert_eq!(rows(&run, "run")[0]["complete"], "false");
    let mut files: Vec<String> = fs::read_dir(&run)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let tables = ["cpus", "gap_parts", "gaps", "periods", "run"];
    let expected = tables.map(|table| [format!("{table}.csv"), format!("{table}.parquet")]);
    assert_eq!(files, expected.concat());
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_is_written() {
    let folder = recordings();
    fs::copy(
        folder.path().join("guest.vmn"),
        folder.path().join("again.vmn"),
    )
    .unwrap();
    fs::write(folder.path().join("notes.txt"), "no recording").unwrap();
    let refusals = [
        ("guest.vmn", 129, "--parquet"),
        ("guest.vmn --csv out", 129, "name the host with --host"),
        (
            "guest.vmn again.vmn --host h --csv out",
            129,
            "of the same run",
        ),
        (
            "guest.vmn --rt-tests out",
            129,
            "one recording of `vmnoise timerlat`",
        ),
        (
            "guest.vmn again.vmn --loggopsim out",
            129,
            "takes one recording",
        ),
        (
            "host.vmn --loggopsim out",
            129,
            "is of `vmnoise exits`, which has no gaps",
        ),
        (
            "guest.vmn notes.txt --host h --csv out",
            1,
            "notes.txt: not a vmnoise recording",
        ),
    ];
    for (words, status, what) in refusals {
        let output = export(&folder, words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{words}: {said}");
        assert!(
            said.contains(what) && said.lines().count() == 1,
            "{words}: {said}"
        );
        assert!(!folder.path().join("out").exists(), "{words}");
    }
}

#[test]
fn exits_that_nobody_asked_for_blame_nobody() {
    let folder = recordings();
    let flaws = Flaws {
        only_long_exits: true,
        ..Flaws::default()
    };
    write_host(&folder.path().join("long.vmn"), flaws);
    let out = folder.path().join("out");
    let export_pair = |host: &str| {
        if out.exists() {
            fs::remove_dir_all(&out).unwrap();
        }
        let words = format!("guest.vmn {host} --host h --csv out --perfetto trace");
        let output = export(&folder, &words);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        (run_of(&out, "h", "-spin"), run_of(&out, "h", "-vcpus"))
    };
    let shares_of = |guest: &Path, is_long: bool| -> BTreeSet<String> {
        let gaps = rows(guest, "gaps");
        let gaps = gaps
            .iter()
            .filter(|gap| (ns(gap, "dur_ns") > 20_000) == is_long);
        let numbers: BTreeSet<&str> = gaps.map(|gap| &gap["gap"][..]).collect();
        let parts = rows(guest, "gap_parts").into_iter();
        let parts = parts.filter(|part| numbers.contains(&part["gap"][..]));
        parts.map(|part| part["share"].clone()).collect()
    };
    let (guest, host) = export_pair("host.vmn");
    assert!(shares_of(&guest, false).contains("kvm"));
    assert!(!rows(&host, "run")[0].contains_key("only_reasons"));

    let (guest, host) = export_pair("long.vmn");
    assert_eq!(
        shares_of(&guest, false),
        BTreeSet::from(["hv_or_hw".to_owned()])
    );
    let long = shares_of(&guest, true);
    assert!(
        long.contains("preempted") && !long.contains("hw"),
        "{long:?}"
    );
    let run = &rows(&host, "run")[0];
    assert_eq!(
        (&run["only_reasons"][..], &run["threshold_ns"][..]),
        ("interrupt", "20000")
    );
    assert_eq!(rows(&host, "exits").len(), 40);
    assert_eq!(rows(&host, "reasons")[0]["exits"], "400", "sums stay whole");
    let trace = fs::read(folder.path().join("trace")).unwrap();
    let name = b"(thread 4170), only interrupt, from 20000 ns of noise";
    assert!(trace.windows(name.len()).any(|bytes| bytes == name));
}

#[test]
fn wake_ups_become_tables_and_what_cyclictest_writes() {
    let folder = tempfile::tempdir().unwrap();
    timers::write(&folder.path().join("timer.vmn"));
    let output = export(&folder, "timer.vmn --host h --csv out --rt-tests rt.json");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    let run = run_of(&folder.path().join("out"), "h", "-timer");
    let wakeups = rows(&run, "wakeups");
    assert_eq!(wakeups.len(), 100);
    let parts = rows(&run, "wakeup_parts");
    for wakeup in &wakeups {
        let parts = parts
            .iter()
            .filter(|part| part["wakeup"] == wakeup["wakeup"]);
        let sum_ns: u64 = parts.map(|part| ns(part, "ns")).sum();
        assert_eq!(sum_ns, ns(wakeup, "latency_ns"));
        let phases = ["armed_late", "irq", "handler", "wakeup", "return"];
        let phases_ns = phases.map(|phase| ns(wakeup, &format!("{phase}_phase_ns")));
        assert_eq!(phases_ns, [0, 5_000, 1_000, 9_000, 5_000]);
    }
    let json: Value =
        serde_json::from_slice(&fs::read(folder.path().join("rt.json")).unwrap()).unwrap();
    let thread = &json["thread"]["0"];
    assert_eq!(thread["cycles"], 100);
    assert_eq!((&thread["min"], &thread["max"]), (&20.into(), &20.into()));
    assert_eq!(thread["histogram"]["20"], 100);
    assert_eq!(json["sysinfo"]["nodename"], "h");
    // The recording is from another machine than this one.
    assert!(json["sysinfo"]["machine"].is_null(), "{json}");
}
