//! Test of the job in `docs/data.md` that computes the cost of a barrier, against `vmnoise scale`
//! on the same data set.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::many_gaps::{write, write_cpus, write_rare_task};

/// CPUs of all hosts.
const CPUS: u64 = 7;

fn vmnoise(folder: &Path, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
    command.current_dir(folder).args(words.split_whitespace());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{words}: {output:?}");
    output
}

/// Returns a data set of hosts with one, two and four CPUs.
fn data_set() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write_rare_task(&path("a.vmn"), 1_500, true);
    write(&path("b.vmn"), 10_000, 999);
    write_cpus(&path("c.vmn"), 4);
    for host in ["a", "b", "c"] {
        let words = format!("export {host}.vmn --parquet fleet --host {host}");
        vmnoise(folder.path(), &words);
    }
    folder
}

/// Checks gaps that are short compared with a step, and gaps of several steps.
pub fn assert_as_long_as_predicted() {
    let folder = data_set();
    let root = super::root();
    for (step_ns, times) in [(400_000, 1), (50_000, 1), (50_000, 64)] {
        let asked = Command::new("python3")
            .arg(root.join("crates/cli/tests/fleet/steps.py"))
            .arg(root.join("docs/data.md"))
            .args([step_ns.to_string(), times.to_string()])
            .env("PYTHONPATH", root.join("target/python"))
            .current_dir(folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&asked.stderr);
        assert!(asked.status.success(), "{said}");
        let job: Value = serde_json::from_slice(&asked.stdout).unwrap();
        let ranks = CPUS * times;
        assert_eq!(job["ranks"], ranks);
        let words = format!("scale fleet --ranks {ranks} --step {step_ns}ns --format json");
        let scale: Value = serde_json::from_slice(&vmnoise(folder.path(), &words).stdout).unwrap();
        let found = job["slowdown_percent"].as_f64().unwrap();
        let ns = |key: &str| scale["scales"][0][key].as_f64().unwrap();
        let expected = 100.0 * (ns("of_recorded_gaps_ns") / ns("undisturbed_ns") - 1.0);
        println!("steps of {step_ns} ns, {ranks} ranks: PySpark {found} %, vmnoise {expected} %");
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
    }
}
