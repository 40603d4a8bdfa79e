//! Tests that nothing beside them can disturb: each runs in a process of its own, and as many at a
//! time as this machine has CPUs and memory for.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cargo_metadata::Message;

use crate::{linted, programs};

/// What one may take: the largest lab has 2 GiB.
const MEMORY_KIB: usize = 3 << 20;

/// Parts of the tests that take longest, minutes where others take seconds: they start first. With
/// one of them as the last, all other CPUs would wait for it.
const LONG: [&str; 4] = ["join::", "feed_nested::", "xen::", "join_timers::"];

/// A test, and the program that has it.
#[derive(Debug, Clone)]
struct Test {
    program: PathBuf,
    /// Where cargo would run it.
    folder: PathBuf,
    name: String,
}

/// What a test came to.
#[derive(Debug)]
pub struct Ran {
    pub name: String,
    pub took: Duration,
    pub stdout: Vec<String>,
    pub stderr: Vec<String>,
    /// Whether its process says so, too.
    pub passed: bool,
}

/// Runs all tests of the workspace whose names have this in them. What each printed is shown when
/// it is over.
pub fn run(filter: &str) -> Result<Vec<Ran>> {
    let mut tests = tests(filter)?;
    // Taken from the end.
    tests.sort_by_key(|test| LONG.iter().any(|part| test.name.starts_with(part)));
    let (waiting, over) = (Mutex::new(tests), Mutex::new(Vec::new()));
    let next = || waiting.lock().ok()?.pop();
    let work = || {
        while let Some(test) = next() {
            let ran = test.run();
            if let Ok(mut over) = over.lock() {
                if let Ok(ran) = &ran {
                    ran.show();
                }
                over.push(ran);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..at_a_time() {
            scope.spawn(work);
        }
    });
    over.into_inner().unwrap_or_default().into_iter().collect()
}

fn at_a_time() -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let facts = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = facts.lines().find_map(|line| {
        let words = line.strip_prefix("MemAvailable:")?.split_whitespace();
        words.take(1).next()?.parse::<usize>().ok()
    });
    available.map_or(1, |kib| (kib / MEMORY_KIB).clamp(1, cpus))
}

fn tests(filter: &str) -> Result<Vec<Test>> {
    let mut found = Vec::new();
    for (program, folder) in built()? {
        let output = Command::new(&program)
            .args([filter, "--list", "--format=terse"])
            .current_dir(&folder)
            .output()
            .with_context(|| format!("listing the tests of {}", program.display()))?;
        ensure!(
            output.status.success(),
            "{} lists no tests: {}",
            program.display(),
            output.status
        );
        let text = String::from_utf8_lossy(&output.stdout);
        let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
        found.extend(names.map(|name| Test {
            program: program.clone(),
            folder: folder.clone(),
            name: name.to_owned(),
        }));
    }
    Ok(found)
}

/// The workspace's programs of tests, built, each with the folder of its package.
fn built() -> Result<BTreeMap<PathBuf, PathBuf>> {
    let output = linted::command()
        .args(["test", "--quiet", "--no-run"])
        .args(programs::ALL)
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .context("starting cargo test --no-run")?;
    ensure!(output.status.success(), "cargo test --no-run failed");
    let mut programs = BTreeMap::new();
    for message in Message::parse_stream(&output.stdout[..]) {
        if let Message::CompilerArtifact(made) = message.context("what cargo built")?
            && made.profile.test
            && let (Some(program), Some(folder)) = (made.executable, made.manifest_path.parent())
        {
            programs.insert(program.into(), folder.into());
        }
    }
    Ok(programs)
}

impl Test {
    fn run(&self) -> Result<Ran> {
        let begun = Instant::now();
        let output = Command::new(&self.program)
            .args(["--exact", &self.name, "--nocapture"])
            .current_dir(&self.folder)
            .output()
            .with_context(|| format!("starting {}", self.program.display()))?;
        let lines = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            text.lines().map(str::to_owned).collect()
        };
        Ok(Ran {
            name: self.name.clone(),
            took: begun.elapsed(),
            stdout: lines(&output.stdout),
            stderr: lines(&output.stderr),
            passed: output.status.success(),
        })
    }
}

impl Ran {
    fn show(&self) {
        for line in &self.stdout {
            println!("{line}");
        }
        for line in &self.stderr {
            eprintln!("{line}");
        }
    }
}
