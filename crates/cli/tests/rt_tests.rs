//! Test of the JSON of rt-tests as scripts for cyclictest read it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::timer_recording;

/// Returns the exported JSON of a `timerlat` recording.
fn exported() -> Value {
    let folder = tempfile::tempdir().unwrap();
    timer_recording::write(&folder.path().join("timer.vmn"));
    let export = Command::new(env!("CARGO_BIN_EXE_vmnoise"))
        .args(["export", "timer.vmn", "--rt-tests", "rt.json"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(export.status.success(), "{export:?}");
    read(&folder.path().join("rt.json"))
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn what_linaros_scripts_look_up_is_there() {
    let reported = exported();
    assert_eq!(reported["return_code"].as_i64(), Some(0));
    let threads = reported["thread"].as_object().unwrap();
    assert_eq!(reported["num_threads"].as_u64(), Some(threads.len() as u64));
    for number in 0..threads.len() {
        let thread = &threads[&number.to_string()];
        let [min, avg, max] = ["min", "avg", "max"].map(|key| thread[key].as_f64().unwrap());
        assert!(min <= avg && avg <= max, "{thread}");
        // With this key, scripts would expect the threads of another program.
        assert!(thread.get("receiver").is_none());
    }
    assert!(reported.get("num_irqs").is_none() && reported.get("inversion").is_none());
}

/// Collects the keys of a document with their paths. Numbers of threads and buckets become one key,
/// and cyclictest's colons at the end of keys are removed.
fn keys_of(value: &Value, path: &str, keys: &mut BTreeSet<String>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let is_number = key.bytes().all(|byte| byte.is_ascii_digit());
        let key = if is_number {
            "N"
        } else {
            key.trim_end_matches(':')
        };
        let path = format!("{path}/{key}");
        keys_of(value, &path, keys);
        keys.insert(path);
    }
}

mod root {
    use super::*;

    #[test]
    fn the_keys_are_those_of_cyclictest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cyclictest.json");
        let cyclictest = Command::new("cyclictest")
            .args(["--quiet", "--loops=20", "--histogram=1000"])
            .arg(format!("--json={}", path.display()))
            .output()
            .unwrap();
        assert!(cyclictest.status.success(), "{cyclictest:?}");
        let [mut its, mut ours] = [BTreeSet::new(), BTreeSet::new()];
        keys_of(&read(&path), "", &mut its);
        keys_of(&exported(), "", &mut ours);
        assert_eq!(ours, its);
    }
}
