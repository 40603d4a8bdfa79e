//! Checks that DuckDB reads the same from a data set as vmnoise, and that vmnoise reads DuckDB's
//! output.

use std::process::Command;

use serde_json::{Value, json};

use super::{Folder, fleet, root};

/// Runs a script from this folder on a data set, and returns its output.
fn python(script: &str, folder: &Folder) -> Vec<u8> {
    let output = Command::new("python3")
        .arg(root().join("crates/cli/tests/data_set").join(script))
        .env("PYTHONPATH", root().join("target/python"))
        .current_dir(folder.0.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {said}");
    output.stdout
}

#[test]
fn what_duckdb_wrote_anew_is_read() {
    let folder = fleet();
    let run = folder.run_of("a");
    let before = std::fs::read(run.join("gap_parts.parquet")).unwrap();
    let words = "scale fleet --ranks 1,7 --step 50us";
    let expected = folder.document(words);
    python("rewritten.py", &folder);
    let after = std::fs::read(run.join("gap_parts.parquet")).unwrap();
    assert_ne!(before, after, "no table was written anew");
    assert_eq!(folder.document(words), expected);
}

#[test]
fn duckdb_adds_up_to_the_same() {
    let folder = fleet();
    let totals: Value = serde_json::from_slice(&python("totals.py", &folder)).unwrap();
    let scale = folder.document("scale fleet --ranks 1 --step 10us");
    let mut gaps = Vec::new();
    for (recording, host) in scale["recordings"]
        .as_array()
        .unwrap()
        .iter()
        .zip(["a", "b", "c"])
    {
        for cpu in recording["measured"].as_array().unwrap() {
            gaps.push(json!([host, cpu["cpu"], cpu["gaps"]]));
        }
    }
    let counted = totals["gaps"].as_array().unwrap().iter();
    let counted: Vec<Value> = counted.map(|row| json!([row[0], row[1], row[2]])).collect();
    assert_eq!(gaps, counted);
    let culprits = totals["culprits"].as_array().unwrap();
    let suspects = scale["suspects"].as_array().unwrap();
    assert_eq!(
        suspects.len(),
        culprits.len(),
        "no more are tried than there are"
    );
    for suspect in suspects {
        let is_it = |row: &&Value| row[0] == suspect["share"] && row[1] == suspect["name"];
        let row = culprits.iter().find(is_it).unwrap();
        let told = json!([suspect["total_ns"], suspect["gaps"], suspect["most_ns"]]);
        assert_eq!(told, json!([row[2], row[3], row[4]]), "{suspect}");
    }
}
