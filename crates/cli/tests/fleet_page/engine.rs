//! Test of the page's figures against DuckDB.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{PlantedFleet, page, rows};

#[test]
fn duckdb_adds_up_to_what_is_on_the_page() {
    let folder = PlantedFleet::planted(16, 4).data_set();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let asked = Command::new("python3")
        .arg(root.join("crates/cli/tests/data_set/totals.py"))
        .env("PYTHONPATH", root.join("target/python"))
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&asked.stderr);
    assert!(asked.status.success(), "{said}");
    let totals: Value = serde_json::from_slice(&asked.stdout).unwrap();
    let page = page(&folder);
    let number = |value: &Value| value.as_f64();
    let takers = rows(&page, "Who took it");
    let culprits = totals["culprits"].as_array().unwrap();
    assert_eq!(takers.len(), culprits.len());
    for (row, found) in takers.iter().zip(culprits) {
        assert_eq!(row[0].0, found[1].as_str().unwrap_or("-"));
        // Total, gaps, longest, and number of hosts.
        for (field, column) in [(3, 2), (4, 3), (5, 4), (6, 5)] {
            assert_eq!(row[field].1, number(&found[column]), "{row:?} {found}");
        }
    }
    let mut gaps: BTreeMap<&str, f64> = BTreeMap::new();
    for row in totals["gaps"].as_array().unwrap() {
        *gaps.entry(row[0].as_str().unwrap()).or_default() += number(&row[2]).unwrap();
    }
    for row in rows(&page, "Hosts") {
        assert_eq!(row[6].1, Some(gaps[&*row[0].0]), "{row:?}");
    }
}
