//! Tests of data sets: predictions from them equal those from the recordings that were exported.

mod engine;
mod refused;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::many_gaps::{write, write_cpus, write_rank, write_rare_task};

const GAPS: u64 = 40_000;
const PEAK_EVERY: u64 = 999;

/// Folder with recordings and a data set.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn vmnoise(&self, words: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
        command.current_dir(self.0.path());
        command.args(words.split_whitespace()).output().unwrap()
    }

    /// Returns the output; the command must succeed without a message.
    fn printed(&self, words: &str) -> Vec<u8> {
        let output = self.vmnoise(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*said), (Some(0), ""), "{words}");
        output.stdout
    }

    fn document(&self, words: &str) -> Value {
        serde_json::from_slice(&self.printed(&format!("{words} --format json"))).unwrap()
    }

    /// Adds a recording to the data set under the name of a host.
    fn store(&self, recording: &str, host: &str) {
        self.printed(&format!("export {recording} --parquet fleet --host {host}"));
    }

    /// Returns the folder of a host's only run.
    fn run_of(&self, host: &str) -> PathBuf {
        let runs = std::fs::read_dir(self.path(&format!("fleet/host={host}"))).unwrap();
        let runs: Vec<PathBuf> = runs.map(|run| run.unwrap().path()).collect();
        let [only] = &runs[..] else {
            panic!("{runs:?}");
        };
        only.clone()
    }
}

/// Returns a data set of three hosts with one, two and four CPUs.
fn fleet() -> Folder {
    let folder = Folder::new();
    write_rare_task(&folder.path("a.vmn"), 6_000, true);
    write(&folder.path("b.vmn"), GAPS, PEAK_EVERY);
    write_cpus(&folder.path("c.vmn"), 4);
    for host in ["a", "b", "c"] {
        folder.store(&format!("{host}.vmn"), host);
    }
    folder
}

/// Returns the document without the names of its input files.
fn without_files(mut document: Value) -> Value {
    for recording in document["recordings"].as_array_mut().unwrap() {
        recording["file"].take();
    }
    document
}

#[test]
fn a_data_set_predicts_what_its_recordings_predict() {
    let folder = fleet();
    for words in [
        "--ranks 1,2,7,4096 --step 100us",
        "--ranks 7 --step 50us --collective allreduce",
    ] {
        let recordings = folder.document(&format!("scale a.vmn b.vmn c.vmn {words}"));
        let data_set = folder.document(&format!("scale fleet {words}"));
        assert_eq!(
            without_files(data_set),
            without_files(recordings),
            "{words}"
        );
    }
}

#[test]
fn a_host_or_a_run_of_it_is_taken_by_its_folder() {
    let folder = fleet();
    let words = "--ranks 2 --step 50us";
    let recording = without_files(folder.document(&format!("scale b.vmn {words}")));
    let run = folder.run_of("b");
    let run = run.strip_prefix(folder.0.path()).unwrap().display();
    for named in ["fleet/host=b".to_owned(), run.to_string()] {
        let data_set = folder.document(&format!("scale {named} {words}"));
        assert_eq!(without_files(data_set), recording, "{named}");
    }
    let supply = |named: &str| {
        let document = folder.document(&format!("schedule {named}"));
        document["cpus"].clone()
    };
    let (mut data_set, mut recording) = (supply("fleet/host=b"), supply("b.vmn"));
    for cpu in [&mut data_set, &mut recording] {
        for cpu in cpu.as_array_mut().unwrap() {
            cpu["files"].take();
        }
    }
    assert_eq!(data_set, recording);
}

/// Ranks of one host that record one file each share the losses of their CPUs; the data set knows
/// their host.
#[test]
fn ranks_of_a_host_that_recorded_at_one_time_are_looked_at_together() {
    let folder = Folder::new();
    write(&folder.path("whole.vmn"), GAPS, PEAK_EVERY);
    for rank in 0..2 {
        let file = format!("rank{rank}.vmn");
        write_rank(&folder.path(&file), GAPS, PEAK_EVERY, rank);
        folder.store(&file, "node");
    }
    let words = "--ranks 1,2,64 --step 50us";
    let whole = folder.document(&format!("scale whole.vmn {words}"));
    let ranks = folder.document(&format!("scale fleet {words}"));
    assert_eq!(ranks["scales"], whole["scales"]);
    assert_eq!(
        ranks["recordings"][0]["measured"],
        whole["recordings"][0]["measured"]
    );
    let apart = folder.document(&format!("scale rank0.vmn rank1.vmn {words}"));
    assert_ne!(
        apart["scales"][1], whole["scales"][1],
        "nothing was in common"
    );
}

/// Returns the root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
