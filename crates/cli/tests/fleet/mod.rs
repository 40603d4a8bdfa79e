//! Tests of the queries of `docs/data.md` on a data set of 200 hosts, with the engines that they
//! are for.

mod hosts;
mod hours;
mod steps;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

/// Returns the root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns a folder with the data set of all hosts in `fleet`.
fn data_set() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let recordings = hosts::write_all(folder.path());
    let export = Command::new(env!("CARGO_BIN_EXE_vmnoise"))
        .arg("export")
        .args(recordings)
        .arg("--parquet")
        .arg(folder.path().join("fleet"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&export.stderr);
    assert!(export.status.success() && said.is_empty(), "{said}");
    folder
}

/// Returns the answers of the queries in this section of the page.
fn ask(section: &str, folder: &TempDir) -> Value {
    run_script("ask.py", section, folder)
}

/// Runs a script from this folder with the page, this section and the data set.
fn run_script(script: &str, section: &str, folder: &TempDir) -> Value {
    let root = root();
    let asked = Command::new("python3")
        .arg(root.join("crates/cli/tests/fleet").join(script))
        .arg(root.join("docs/data.md"))
        .arg(section)
        .env("PYTHONPATH", root.join("target/python"))
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&asked.stderr);
    assert!(asked.status.success(), "{section}: {said}");
    serde_json::from_slice(&asked.stdout).unwrap()
}

/// Compares without the last digits, since engines may add in any order.
fn is_about(found: &Value, expected: f64) -> bool {
    let found = found.as_f64().unwrap();
    (found - expected).abs() <= expected.abs() * 1e-9
}

fn answers_as_planned(section: &str) {
    let found = ask(section, &data_set());
    let expected = hosts::answers();
    let rows = |question: &str| found[question].as_array().unwrap().clone();

    let worst = rows("worst_hosts");
    assert_eq!(worst.len(), expected.worst_hosts.len());
    for (row, (host, percent, max_ns)) in worst.iter().zip(&expected.worst_hosts) {
        assert_eq!((&row[0], &row[2]), (&host[..].into(), &(*max_ns).into()));
        assert!(is_about(&row[1], *percent), "{row} is not {percent}");
    }
    let culprits = rows("culprits");
    assert_eq!(culprits.len(), expected.culprits.len());
    for (row, (share, source, ns, hosts)) in culprits.iter().zip(&expected.culprits) {
        assert_eq!((&row[0], &row[1]), (&share[..].into(), &source[..].into()));
        let sums = [row[2].as_f64(), row[3].as_f64()];
        assert_eq!(sums, [Some(*ns as f64), Some(*hosts as f64)]);
    }
    let hours = rows("steal_by_hour");
    assert_eq!(hours.len(), expected.steal_by_hour.len());
    for (row, (hour, percent)) in hours.iter().zip(&expected.steal_by_hour) {
        assert_eq!(row[0], *hour);
        assert!(is_about(&row[1], *percent), "{row} is not {percent}");
    }
}

mod engine {
    use super::hours::{self, FleetSize};

    #[test]
    fn duckdb_answers_as_planned() {
        super::answers_as_planned("DuckDB");
    }

    #[test]
    fn duckdb_answers_about_hours_as_planned() {
        let fleet = FleetSize { hosts: 12, vms: 4 };
        hours::assert_answers_as_planned("DuckDB", &hours::data_set(fleet), fleet);
    }
}

mod lab_full {
    mod engines {
        use crate::fleet::hours::{self, FleetSize};

        #[test]
        fn duckdb_and_pyspark_answer_about_a_day_of_1000_hosts_as_planned() {
            let fleet = FleetSize {
                hosts: 1_000,
                vms: 20,
            };
            let folder = hours::data_set(fleet);
            hours::assert_answers_as_planned("DuckDB", &folder, fleet);
            hours::assert_answers_as_planned("PySpark", &folder, fleet);
        }

        #[test]
        fn steps_are_as_long_in_pyspark_as_in_scale() {
            crate::fleet::steps::assert_as_long_as_predicted();
        }

        #[test]
        fn polars_answers_as_planned() {
            crate::fleet::answers_as_planned("polars");
        }

        #[test]
        fn pyspark_answers_as_planned() {
            crate::fleet::answers_as_planned("PySpark");
        }
    }
}
