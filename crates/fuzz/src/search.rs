//! Search for inputs that break a target. A worker on each CPU tries one target after the other.

use std::collections::HashSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::Args;
use tempfile::NamedTempFile;
use vmnoise_fuzz::{FuzzTarget, Inputs, TARGETS, corpus};

use crate::worker::read_note;

/// Time limit of one input. An input takes milliseconds, so an input that takes this long never
/// ends.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub struct Search {
    /// Targets [default: all, which share the time]
    #[arg(value_parser = crate::target)]
    targets: Vec<FuzzTarget>,
    /// Length of the search in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seed of all inputs [default: random]
    #[arg(long)]
    seed: Option<u64>,
    /// Number of workers [default: one for each CPU]
    #[arg(long)]
    jobs: Option<usize>,
    /// Folder with a corpus for each target, to which inputs that break it are added
    #[arg(long, default_value_os_t = corpus())]
    corpus: PathBuf,
}

/// Result of one target.
struct Tried {
    name: &'static str,
    /// Number of inputs that held.
    inputs: u64,
    took: Duration,
    /// Messages of workers that died; each message occurs once.
    found: Vec<String>,
}

impl Search {
    /// Runs the search. Returns whether no input broke a property.
    pub fn run(&self) -> Result<bool> {
        let targets = match &self.targets[..] {
            [] => &TARGETS[..],
            targets => targets,
        };
        let seed = self.seed.unwrap_or_else(any_seed);
        let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = self.jobs.unwrap_or_else(cpus).clamp(1, targets.len());
        let share = Duration::from_secs(self.seconds) * jobs as u32 / targets.len() as u32;
        println!(
            "seed {seed}: {} targets, {} ms each",
            targets.len(),
            share.as_millis()
        );
        let next = Mutex::new(targets.iter());
        let turn = || next.lock().ok()?.next().copied();
        let work = || -> Result<Vec<Tried>> {
            let tried = std::iter::from_fn(turn).map(|target| {
                One {
                    target,
                    seed,
                    corpus: self.corpus.join(target.corpus),
                }
                .try_for(share)
            });
            tried
                .inspect(|tried| tried.iter().for_each(Tried::report))
                .collect()
        };
        let tried = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
            let joined = threads.into_iter().map(|it| it.join().expect("no panic"));
            joined.collect::<Result<Vec<_>>>()
        })?;
        let tried = || tried.iter().flatten();
        let inputs: u64 = tried().map(|it| it.inputs).sum();
        let found: usize = tried().map(|it| it.found.len()).sum();
        println!("{inputs} inputs, {found} of them broke a property");
        Ok(found == 0)
    }
}

/// Search in one target.
struct One {
    target: FuzzTarget,
    seed: u64,
    /// Folder of the target's corpus.
    corpus: PathBuf,
}

impl One {
    /// Searches for the time `share`, even after inputs broke the target.
    fn try_for(&self, share: Duration) -> Result<Tried> {
        let begun = Instant::now();
        let (mut inputs, mut found) = (0, Vec::new());
        let mut known = HashSet::new();
        let mut from = 0_u64;
        while let Some(left) = share.checked_sub(begun.elapsed()) {
            let note = NamedTempFile::new()?;
            fs::write(&note, from.to_le_bytes())?;
            let worker = self.start(from, left, note.path())?;
            let ended = watched(worker, note.as_file())?;
            let (case, words) = read_note(note.as_file())?;
            inputs += case - from;
            let words = match ended {
                Some(status) if status.success() => break,
                Some(status) => format!("{status}: {words}"),
                None => format!("it takes more than {} s", PATIENCE.as_secs()),
            };
            // Many inputs fail at the same place.
            if known.insert(first_line(&words).to_owned()) {
                found.push(self.keep(case, &words)?);
            }
            from = case + 1;
        }
        Ok(Tried {
            name: self.target.name,
            inputs,
            took: begun.elapsed(),
            found,
        })
    }

    fn start(&self, from: u64, left: Duration, note: &Path) -> Result<Child> {
        let worker = Command::new(std::env::current_exe()?)
            .args(["worker", "--target", self.target.name])
            .args([
                "--seed",
                &self.seed.to_string(),
                "--from",
                &from.to_string(),
            ])
            .args(["--millis", &left.as_millis().to_string()])
            .arg("--note")
            .arg(note)
            .arg("--corpus")
            .arg(&self.corpus)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        worker.context("starting a worker")
    }

    /// Adds the input to the corpus. Returns a text that says how to repeat the input.
    fn keep(&self, case: u64, words: &str) -> Result<String> {
        let input = Inputs::of(self.seed, &self.corpus).input(case);
        fs::create_dir_all(&self.corpus)?;
        let (name, seed) = (self.target.name, self.seed);
        let path = self
            .corpus
            .canonicalize()?
            .join(format!("found-{seed}-{case}"));
        fs::write(&path, input).with_context(|| path.display().to_string())?;
        Ok(format!(
            "{words}\n  input {case} of seed {seed}; once more: cargo run -p vmnoise-fuzz -- again \
             {name} {}",
            path.display()
        ))
    }
}

/// Waits for a worker. Returns `None` if the worker did not end in time and was killed.
fn watched(mut worker: Child, note: &File) -> Result<Option<ExitStatus>> {
    let (mut last, mut since) = (0, Instant::now());
    loop {
        if let Some(status) = worker.try_wait()? {
            return Ok(Some(status));
        }
        let (case, _) = read_note(note)?;
        if case != last {
            (last, since) = (case, Instant::now());
        }
        if since.elapsed() > PATIENCE {
            worker.kill()?;
            worker.wait()?;
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    }
}

/// Returns the first line of a panic, which names the position in the source.
fn first_line(words: &str) -> &str {
    words.lines().next().unwrap_or_default()
}

impl Tried {
    fn report(&self) {
        let name = self.name;
        println!(
            "{name:<17} {:>9} inputs in {:>5.1} s",
            self.inputs,
            self.took.as_secs_f64()
        );
        for found in &self.found {
            println!("FOUND {name}: {found}");
        }
    }
}

fn any_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_nanos() as u64)
}
