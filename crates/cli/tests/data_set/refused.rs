//! Tests of folders that are no data set, and of data sets that are damaged or contradictory.

use std::fs;
use std::path::Path;

use super::{Folder, GAPS, PEAK_EVERY, fleet};
use crate::join_pair::write_tasks;
use crate::many_gaps::{write, write_rank, write_rare_task, write_taken_all_the_time};

impl Folder {
    /// Returns the only line on stderr; stdout must be empty.
    fn refused(&self, words: &str) -> String {
        let output = self.vmnoise(words);
        let said = String::from_utf8(output.stderr).unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_ne!(output.status.code(), Some(0), "{words}: {printed}");
        assert_eq!(
            (output.stdout.len(), said.lines().count()),
            (0, 1),
            "{said}"
        );
        said
    }

    fn assert_refused(&self, words: &str, why: &str) {
        let said = self.refused(words);
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn what_is_no_data_set_is_refused_with_what_to_name() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("empty/host=x")).unwrap();
    fs::create_dir_all(folder.path("served/hours/date=2026-01-01")).unwrap();
    write_rare_task(&folder.path("a.vmn"), 600, true);
    folder.printed("export a.vmn --csv csv --host a");
    let named = "name a folder that `vmnoise export --parquet` wrote";
    for (words, why) in [
        ("scale empty", "there is no folder `host=…/run=…`"),
        ("scale served", "it has hours of `vmnoise serve`"),
        ("scale csv", "its tables are CSV"),
    ] {
        let said = folder.refused(words);
        assert!(said.contains(why) && said.contains(named), "{said}");
    }
}

/// Replaces a table by another table of the same run.
fn replace(run: &Path, table: &str, by: &str) {
    fs::copy(
        run.join(format!("{by}.parquet")),
        run.join(format!("{table}.parquet")),
    )
    .unwrap();
}

#[test]
fn tables_that_are_damaged_or_others_are_refused_by_name() {
    let folder = fleet();
    let run = folder.run_of("a");
    let kept = folder.path("kept");
    fs::create_dir(&kept).unwrap();
    for table in ["run", "cpus", "gaps", "gap_parts"] {
        fs::copy(run.join(format!("{table}.parquet")), kept.join(table)).unwrap();
    }
    let restore = |table: &str| {
        fs::copy(kept.join(table), run.join(format!("{table}.parquet"))).unwrap();
    };
    for table in ["run", "cpus", "gaps", "gap_parts"] {
        let path = run.join(format!("{table}.parquet"));
        let name = format!("{table}.parquet");
        let whole = fs::read(&path).unwrap();
        for bytes in [0, 3, 100, whole.len() / 2, whole.len() - 1] {
            fs::write(&path, &whole[..bytes]).unwrap();
            let said = folder.refused("scale fleet");
            assert!(said.contains(&name) && said.contains("again"), "{said}");
        }
        fs::remove_file(&path).unwrap();
        folder.assert_refused("scale fleet", &format!("{name} is not there"));
        restore(table);
    }
    replace(&run, "gap_parts", "gaps");
    folder.assert_refused("scale fleet", "it has no column `share` (text)");
    restore("gap_parts");
    replace(&run, "run", "cpus");
    folder.assert_refused("scale fleet", "it has no column `data_version` (int)");
    restore("run");
    // The parts of a run that has more gaps.
    fs::copy(
        folder.run_of("b").join("gap_parts.parquet"),
        run.join("gap_parts.parquet"),
    )
    .unwrap();
    folder.assert_refused("scale fleet", "is of a gap that is not there");
}

/// Changes each byte of a small run's tables in turn: the change is refused in one line, or changes
/// a value.
#[test]
fn no_byte_makes_reading_fail_otherwise_than_in_a_line() {
    let folder = Folder::new();
    write_rare_task(&folder.path("a.vmn"), 300, true);
    folder.store("a.vmn", "a");
    let run = folder.run_of("a");
    for table in ["cpus", "gap_parts"] {
        let path = run.join(format!("{table}.parquet"));
        let whole = fs::read(&path).unwrap();
        for place in (0..whole.len()).step_by(1 + whole.len() / 40) {
            let mut damaged = whole.clone();
            damaged[place] ^= 0x55;
            fs::write(&path, damaged).unwrap();
            let output = folder.vmnoise("scale fleet --ranks 2 --step 10us");
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(
                matches!(output.status.code(), Some(0 | 1 | 129)) && said.lines().count() <= 1,
                "{table}, byte {place}: {:?} {said}",
                output.status
            );
        }
        fs::write(&path, whole).unwrap();
    }
}

#[test]
fn runs_of_a_host_that_cannot_be_looked_at_together_are_refused() {
    let folder = Folder::new();
    write(&folder.path("whole.vmn"), GAPS, PEAK_EVERY);
    write_rank(&folder.path("rank1.vmn"), GAPS, PEAK_EVERY, 1);
    for file in ["whole.vmn", "rank1.vmn"] {
        folder.store(file, "node");
    }
    let said = folder.refused("scale fleet");
    assert!(
        said.contains("are of CPU 1 at the same time: name one of them"),
        "{said}"
    );
    let folder = Folder::new();
    write_rank(&folder.path("rank0.vmn"), GAPS, PEAK_EVERY, 0);
    write_rank(&folder.path("rank1.vmn"), GAPS / 4, PEAK_EVERY, 1);
    for file in ["rank0.vmn", "rank1.vmn"] {
        folder.store(file, "node");
    }
    folder.assert_refused("scale fleet", "overlap for less than half of their time");
}

#[test]
fn runs_without_gaps_are_left_out_and_said_unless_there_are_no_others() {
    let folder = Folder::new();
    write_tasks(&folder.path("tasks.vmn"));
    folder.store("tasks.vmn", "a");
    folder.assert_refused("scale fleet", "is of `vmnoise timerlat`, which has no gaps");
    write_rare_task(&folder.path("b.vmn"), 600, true);
    folder.store("b.vmn", "b");
    let output = folder.vmnoise("scale fleet --ranks 1");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("left out: ") && said.contains("which has no gaps"),
        "{said}"
    );
    let alone = folder.printed("scale b.vmn --ranks 1 --format json");
    let alone: serde_json::Value = serde_json::from_slice(&alone).unwrap();
    let both: serde_json::Value =
        serde_json::from_slice(&folder.vmnoise("scale fleet --ranks 1 --format json").stdout)
            .unwrap();
    assert_eq!(both["scales"], alone["scales"]);
}

#[test]
fn a_run_that_is_named_twice_is_refused() {
    let folder = Folder::new();
    write_rare_task(&folder.path("a.vmn"), 600, true);
    folder.store("a.vmn", "a");
    for words in [
        "scale a.vmn a.vmn",
        "scale a.vmn fleet",
        "scale fleet/host=a fleet",
        "schedule fleet fleet/host=a",
    ] {
        folder.assert_refused(words, "are of the same run: name one of them");
    }
}

/// In a run of 2.4 s, a program with steps of 10 s does not reach its first barrier; another run
/// lasts 40 s.
#[test]
fn a_run_in_which_no_step_ends_is_named_and_left_out_of_a_data_set() {
    let folder = Folder::new();
    write_rare_task(&folder.path("a.vmn"), 10_000, true);
    write_rare_task(&folder.path("b.vmn"), 600, true);
    for host in ["a", "b"] {
        folder.store(&format!("{host}.vmn"), host);
    }
    let words = "--ranks 2 --step 10s";
    folder.assert_refused(
        &format!("scale a.vmn b.vmn {words}"),
        "b.vmn measured 2.400 s, which is too short for a step of 10.000 s: record for longer",
    );
    let output = folder.vmnoise(&format!("scale fleet {words}"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), said.lines().count()),
        (Some(0), 1),
        "{said}"
    );
    assert!(
        said.contains("left out: fleet/host=b/")
            && said.contains("too short for a step of 10.000 s"),
        "{said}"
    );
    folder.assert_refused("scale fleet/host=b --step 10s", "record for longer");
}

/// The CPU of the longer run is taken from its beginning to its end.
#[test]
fn of_a_cpu_that_is_taken_all_the_time_its_own_run_is_named() {
    let folder = Folder::new();
    write_rare_task(&folder.path("a.vmn"), 600, true);
    write_taken_all_the_time(&folder.path("b.vmn"), 10_000_000_000);
    folder.assert_refused("scale a.vmn b.vmn --ranks 2", "b.vmn measured 10.000 s");
}

#[test]
fn no_table_that_is_read_is_written_over() {
    let folder = Folder::new();
    write_rare_task(&folder.path("a.vmn"), 600, true);
    folder.store("a.vmn", "a");
    let run = folder.run_of("a");
    let tables = || {
        let tables = fs::read_dir(&run).unwrap().map(|it| it.unwrap().path());
        let tables = tables.map(|it| (fs::read(&it).unwrap(), it));
        let mut tables: Vec<_> = tables.collect();
        tables.sort_unstable_by(|one, other| one.1.cmp(&other.1));
        tables
    };
    let before = tables();
    std::os::unix::fs::symlink(run.join("run.parquet"), folder.path("link")).unwrap();
    let run_name = run.strip_prefix(folder.0.path()).unwrap().display();
    for words in [
        format!("report fleet -o {run_name}/cpus.parquet"),
        format!("report fleet -o {run_name}/page.html"),
        "report fleet -o link".into(),
        format!("schedule fleet --csv {run_name}/gaps.parquet"),
        format!("schedule {run_name} --csv {run_name}/new.csv"),
    ] {
        folder.assert_refused(&words, "is in the data set that is read");
    }
    assert!(tables() == before, "a table was changed");
    let output = folder.vmnoise("report fleet -o fleet/page.html");
    assert_eq!(output.status.code(), Some(0));
}

/// The creator of a folder chooses its name.
#[test]
fn no_name_in_a_data_set_steers_the_terminal() {
    let folder = Folder::new();
    write_rare_task(&folder.path("a.vmn"), 600, true);
    folder.store("a.vmn", "a");
    fs::rename(
        folder.path("fleet/host=a"),
        folder.path("fleet/host=a%1B[31m%E2%80%AE"),
    )
    .unwrap();
    folder.printed("report fleet -o page.html");
    let page = fs::read_to_string(folder.path("page.html")).unwrap();
    assert!(page.contains("a␛[31m\u{fffd} loses "), "{page}");
}
