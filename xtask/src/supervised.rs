//! Runs tests in a process with a time limit. If the process exceeds the limit, the stacks of its
//! threads are printed. Then the process and all processes that it started are killed.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::suite::Test;
use crate::{libtest, tree};

/// Name and value of an environment variable.
pub type Setting = (&'static str, &'static str);

/// Time between two checks of a running test.
const LOOK: Duration = Duration::from_millis(5);
/// Time to wait for the end of an ended test's output. A process that is already killed may hold
/// the output open.
const OUTPUT_END: Duration = Duration::from_secs(5);
/// Number of lines that are printed again from the output of a killed test.
const LAST_LINES: usize = 30;
/// Environment variable with a time limit in seconds, which replaces the limit of every test.
const LIMIT_VARIABLE: &str = "VMNOISE_TEST_SECONDS";

/// How a test ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    Passed,
    Failed,
    /// The test has the attribute `#[ignore]`.
    Ignored,
    /// The test reported that it cannot run on this machine. Contains the reason.
    Skipped(String),
    /// The test exceeded its time limit, which is contained here.
    TooLong(Duration),
    /// The process ended without a result, or with a result that contradicts its exit status.
    Died(String),
}

/// A test that has run, with its result.
#[derive(Debug)]
pub struct Ran {
    pub name: String,
    pub took: Duration,
    pub ending: Ending,
    pub stdout: Vec<String>,
    pub stderr: Vec<String>,
    /// If the test was killed: stacks of its threads. Also processes that were still running after
    /// the test.
    pub notes: Vec<String>,
}

/// A process that has ended or was killed.
#[derive(Debug)]
pub struct Ended {
    /// Exit status; `None` if the process exceeded its time limit.
    pub status: Option<ExitStatus>,
    pub took: Duration,
    pub stdout: Vec<String>,
    pub stderr: Vec<String>,
    /// If the process was killed: stacks of its threads. Also processes that were still running
    /// after it.
    pub notes: Vec<String>,
}

/// Runs a test in a separate process until it ends or exceeds its limit.
///
/// # Errors
/// If the test program cannot be started.
pub fn run(test: &Test, settings: &[Setting], limit: Duration) -> Result<Ran> {
    let limit = limit_of_environment().unwrap_or(limit);
    let arguments = ["--exact", &test.name, "--nocapture", "--quiet"];
    let ended = supervise(test, &arguments, settings, limit)?;
    let ending = match ended.status {
        None => Ending::TooLong(limit),
        Some(status) => ending(&ended.stdout, &ended.stderr, status),
    };
    Ok(Ran {
        name: test.name.clone(),
        took: ended.took,
        ending,
        stdout: ended.stdout,
        stderr: ended.stderr,
        notes: ended.notes,
    })
}

/// Runs the program of a test with these arguments until it ends or exceeds the limit.
///
/// # Errors
/// If the program cannot be started.
pub fn supervise(
    test: &Test,
    arguments: &[&str],
    settings: &[Setting],
    limit: Duration,
) -> Result<Ended> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let mark = format!("{}-{number}", std::process::id());
    let begun = Instant::now();
    let mut child = command(test, arguments)
        .envs(settings.iter().copied())
        .env(tree::MARK, &mark)
        .spawn()
        .with_context(|| format!("starting {}", test.program.display()))?;
    let stdout = child.stdout.take().map(Output::of).context("stdout")?;
    let stderr = child.stderr.take().map(Output::of).context("stderr")?;
    let mut notes = Vec::new();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if begun.elapsed() >= limit {
            notes.extend(tree::stacks(&mark).lines().map(str::to_owned));
            break None;
        }
        std::thread::sleep(LOOK);
    };
    let took = begun.elapsed();
    let left = tree::end(&mark);
    if status.is_none() {
        reap(&mut child)?;
    } else if !left.is_empty() {
        notes.push(format!("left running, and ended: {}", left.join(", ")));
    }
    Ok(Ended {
        status,
        took,
        stdout: stdout.lines(),
        stderr: stderr.lines(),
        notes,
    })
}

/// Returns the limit that the environment sets for every test; `None` if it sets none.
pub fn limit_of_environment() -> Option<Duration> {
    let seconds = std::env::var(LIMIT_VARIABLE).ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Returns the command of a test program, with the environment of a plain terminal. Signals that
/// nohup(1) or a background shell ignores have their default effect. Messages of other programs are
/// in English, and stdin is empty.
fn command(test: &Test, arguments: &[&str]) -> Command {
    let mut command = Command::new("env");
    command
        .arg("--default-signal")
        .arg("--")
        .arg(&test.program)
        .args(arguments)
        .current_dir(&test.folder)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Kills a process, and waits for its end.
fn reap(child: &mut Child) -> Result<()> {
    child.kill().ok();
    child.wait().context("waiting for a test that was ended")?;
    Ok(())
}

fn ending(stdout: &[String], stderr: &[String], status: ExitStatus) -> Ending {
    let result = stdout.iter().find_map(|line| libtest::Result::parse(line));
    let skipped = stderr.iter().find_map(|line| libtest::skipped(line));
    match (result, status.success()) {
        (Some(result), true) if result.ignored == 1 => Ending::Ignored,
        (Some(result), true) if result.passed == 1 => match skipped {
            Some((_, reason)) => Ending::Skipped(reason.to_owned()),
            None => Ending::Passed,
        },
        (Some(result), false) if result.failed == 1 => Ending::Failed,
        _ => Ending::Died(status.to_string()),
    }
}

/// Lines of a process's output, which are collected while it runs.
struct Output {
    lines: Arc<Mutex<Vec<String>>>,
    reader: std::thread::JoinHandle<()>,
}

impl Output {
    fn of(output: impl Read + Send + 'static) -> Output {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let reader = std::thread::spawn(move || {
            let pieces = BufReader::new(output).split(b'\n').map_while(Result::ok);
            for piece in pieces {
                let line = String::from_utf8_lossy(&piece).into_owned();
                kept.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(line);
            }
        });
        Output { lines, reader }
    }

    /// Returns the lines so far. Waits only for a limited time for the end of the output, because
    /// another process may hold the output open.
    fn lines(self) -> Vec<String> {
        let begun = Instant::now();
        while !self.reader.is_finished() && begun.elapsed() < OUTPUT_END {
            std::thread::sleep(LOOK);
        }
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.clone()
    }
}

impl Ran {
    /// Prints the outcome in one line. Also prints all output if `verbose` is set, or if the test
    /// did not pass.
    pub fn show(&self, verbose: bool) {
        let outcome = match &self.ending {
            Ending::Passed => "ok".to_owned(),
            Ending::Failed => "FAILED".to_owned(),
            Ending::Ignored => "ignored".to_owned(),
            Ending::Skipped(reason) => format!("skipped: {reason}"),
            Ending::TooLong(limit) => format!("TOO LONG: ended after {} s", limit.as_secs()),
            Ending::Died(status) => format!("DIED without a result: {status}"),
        };
        let took = self.took.as_secs_f64();
        let is_bad = self.is_bad();
        if verbose || is_bad {
            let lines = self.stdout.iter().chain(&self.stderr);
            let skip = match self.ending {
                Ending::TooLong(_) => lines.clone().count().saturating_sub(LAST_LINES),
                _ => 0,
            };
            for line in lines.skip(skip).filter(|line| is_of_the_test(line)) {
                println!("    {line}");
            }
        }
        for note in &self.notes {
            println!("    {note}");
        }
        if verbose || is_bad || !self.notes.is_empty() {
            println!("{took:8.2} s {} ... {outcome}", self.name);
        }
    }

    /// Returns whether the result of this test makes the gate fail.
    pub fn is_bad(&self) -> bool {
        matches!(
            self.ending,
            Ending::Failed | Ending::TooLong(_) | Ending::Died(_)
        )
    }
}

/// Returns whether the test itself printed this line, not libtest.
fn is_of_the_test(line: &str) -> bool {
    let is_frame = ["", ".", "F", "i", "running 1 test"].contains(&line);
    !is_frame && !line.starts_with("test result: ")
}
