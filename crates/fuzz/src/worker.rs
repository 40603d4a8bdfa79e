//! Process that tries the inputs of one target. Before it tries an input, the process writes the
//! number of this input to a note. The parent process then knows which input ended the process.

use std::backtrace::Backtrace;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use vmnoise_fuzz::{FuzzTarget, Inputs};

/// Memory limit for one input, in bytes. This is the limit for a file of 1 MB
/// (docs/reliability.md), and inputs are smaller.
const MEMORY_BYTES: u64 = 256 << 20;
/// Position of the message in the note, after the number.
const WORDS_AT: u64 = size_of::<u64>() as u64;

#[derive(Debug, Args)]
pub struct FuzzWorker {
    #[arg(long, value_parser = crate::target)]
    pub target: FuzzTarget,
    #[arg(long)]
    pub seed: u64,
    /// Number of the first input.
    #[arg(long)]
    pub from: u64,
    #[arg(long)]
    pub millis: u64,
    #[arg(long)]
    pub note: PathBuf,
    /// Folder of its corpus.
    #[arg(long)]
    pub corpus: PathBuf,
}

impl FuzzWorker {
    pub fn run(&self) -> Result<()> {
        let end = Instant::now() + Duration::from_millis(self.millis);
        let note = OpenOptions::new().write(true).open(&self.note)?;
        let inputs = Inputs::of(self.seed, &self.corpus);
        keep_last_words(note.try_clone()?);
        bound_memory()?;
        for case in self.from.. {
            note.write_all_at(&case.to_le_bytes(), 0)?;
            if Instant::now() >= end {
                break;
            }
            (self.target.check)(&inputs.input(case));
        }
        Ok(())
    }
}

/// Writes the message of a panic to the note, after the number, because the targets use stderr.
fn keep_last_words(note: File) {
    std::panic::set_hook(Box::new(move |panic| {
        let trace = Backtrace::force_capture().to_string();
        let words = format!("{}: {panic}", first_of_ours(&trace));
        // The number alone is enough to repeat the input.
        let _ = note.write_all_at(words.as_bytes(), WORDS_AT);
    }));
}

/// Returns the innermost line of a backtrace that is in this workspace. For example, an overflow of
/// a sum panics inside the standard library.
fn first_of_ours(trace: &str) -> &str {
    let mut places = trace.lines().map(str::trim);
    let is_ours = |place: &&str| place.contains("crates/") && !place.contains("fuzz/src/worker.rs");
    places.find(is_ours).unwrap_or("somewhere")
}

/// Limits the memory of this process to its present size plus [`MEMORY_BYTES`].
fn bound_memory() -> Result<()> {
    let status = std::fs::read_to_string("/proc/self/statm")?;
    let pages = status
        .split(' ')
        .next()
        .and_then(|pages| pages.parse().ok());
    let pages: u64 = pages.context("/proc/self/statm does not begin with a number")?;
    let most = pages * rustix::param::page_size() as u64 + MEMORY_BYTES;
    let limit = Rlimit {
        current: Some(most),
        ..getrlimit(Resource::As)
    };
    Ok(setrlimit(Resource::As, limit)?)
}

/// Reads a note: the number of the last input that was started, and the last message.
pub fn read_note(note: &File) -> Result<(u64, String)> {
    let mut number = [0; WORDS_AT as usize];
    note.read_exact_at(&mut number, 0)?;
    let mut words = vec![0; 16 << 10];
    let length = note.read_at(&mut words, WORDS_AT)?;
    let words = String::from_utf8_lossy(&words[..length]).into_owned();
    Ok((u64::from_le_bytes(number), words))
}
