//! Writes recordings of a guest, its tasks and its host into the corpora of their readers.

#[allow(clippy::unwrap_used)] // Written for tests.
#[allow(dead_code)] // Tests of the page use the rest of this module.
#[path = "../../cli/tests/join_pair/mod.rs"]
mod join_pair;

use std::fs::{create_dir_all, read, write};
use std::path::Path;

use join_pair::{Flaws, write_guest, write_host, write_tasks};
use vmnoise_recording::{RecordingReader, Writer};

/// Number of events with which a guest can be identified. All events would take megabytes.
const PROOF: usize = 1_500;
/// Number of events if no guest has to be identified.
const FEW: usize = 150;

fn main() -> std::io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let folder = tempfile::tempdir()?;
    let made = |name: &str, make: &dyn Fn(&Path)| {
        let path = folder.path().join(name);
        make(&path);
        read(path)
    };
    let gaps = made("gaps", &write_guest)?;
    let tasks = shortened(&made("tasks", &write_tasks)?, PROOF);
    let exits = made("exits", &|path| write_host(path, Flaws::default()))?;
    let save = |target: &str, name: &str, bytes: &[u8]| {
        create_dir_all(corpus.join(target))?;
        write(corpus.join(target).join(name), bytes)
    };
    save("recordings", "gaps", &shortened(&gaps, FEW))?;
    save("recordings", "tasks", &shortened(&tasks, FEW))?;
    save("recordings", "exits", &shortened(&exits, FEW))?;
    save("join", "gaps", &[&gaps[..], &exits[..]].concat())?;
    save("join", "tasks", &[&tasks[..], &exits[..]].concat())
}

/// Returns a recording of the first events.
fn shortened(recording: &[u8], events: usize) -> Vec<u8> {
    let mut reader = RecordingReader::new(recording).expect("a recording of ours");
    let mut writer = Writer::new(Vec::new(), reader.facts()).expect("memory takes every byte");
    let mut left = events;
    let read = reader.for_each(&mut |event| {
        if left > 0 {
            left -= 1;
            writer.push(event).expect("memory takes every byte");
        }
    });
    read.expect("a recording of ours");
    writer.finish().expect("memory takes every byte")
}
