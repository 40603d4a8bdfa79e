//! Runs all tests of one program in one process, at the same time. A separate process for each of a
//! thousand short tests would take longer than the tests. Tests that share an input would each have
//! to create it.
//!
//! The result of a passed test is final. All other tests run again in separate processes, so that
//! each has its own output. A test that failed in the common process still counts as failed.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::libtest::{self, Outcome};
use crate::suite::Test;
use crate::supervised::{self, Ended, Ending, Ran, Setting};

/// Runs tests of one program. The time of each test is 0, because it is not measured. The time of
/// all tests is printed in one line.
///
/// # Errors
/// If the program cannot be started.
pub fn run(tests: &[Test], settings: &[Setting], limit: Duration) -> Result<Vec<Ran>> {
    let [first, _, ..] = tests else {
        let alone = tests.iter();
        return alone
            .map(|test| supervised::run(test, settings, limit))
            .collect();
    };
    let limit = supervised::limit_of_environment().unwrap_or(limit);
    let names = tests.iter().map(|test| test.name.as_str());
    let arguments: Vec<&str> = ["--exact", "--nocapture"]
        .into_iter()
        .chain(names)
        .collect();
    let ended = supervised::supervise(first, &arguments, settings, limit)?;
    let outcomes: BTreeMap<&str, Outcome> = (ended.stdout.iter())
        .filter_map(|line| Outcome::parse(line))
        .collect();
    let skips: BTreeMap<&str, &str> = (ended.stderr.iter())
        .filter_map(|line| libtest::skipped(line))
        .collect();
    let mut over = Vec::new();
    for test in tests {
        let name = test.name.as_str();
        let ending = match (outcomes.get(name), skips.get(name)) {
            (Some(Outcome::Ok), None) => Ending::Passed,
            (Some(Outcome::Ok), Some(reason)) => Ending::Skipped((*reason).to_owned()),
            (Some(Outcome::Ignored), _) => Ending::Ignored,
            (Some(Outcome::Failed), _) => {
                over.push(failed(supervised::run(test, settings, limit)?));
                continue;
            }
            (None, _) => {
                over.push(supervised::run(test, settings, limit)?);
                continue;
            }
        };
        over.push(Ran {
            name: test.name.clone(),
            took: Duration::ZERO,
            ending,
            stdout: Vec::new(),
            stderr: Vec::new(),
            notes: Vec::new(),
        });
    }
    let is_cut = outcomes.len() < tests.len();
    println!(
        "{:8.2} s {} tests of {}",
        ended.took.as_secs_f64(),
        tests.len(),
        place(first)
    );
    over.extend(cut_off(first, ended, limit, is_cut));
    Ok(over)
}

/// Returns the package and the file name of a test's program.
fn place(test: &Test) -> String {
    let name = |path: &Path| path.file_name().unwrap_or_default().display().to_string();
    format!("{}/{}", name(&test.folder), name(&test.program))
}

/// Marks a test as failed because it failed in the common process, even if it passes in a separate
/// one.
fn failed(mut alone: Ran) -> Ran {
    if !alone.is_bad() {
        alone.ending = Ending::Failed;
        let note = "failed together with the other tests of its program, and passed alone";
        alone.notes.push(note.to_owned());
    }
    alone
}

/// Returns a failure for the whole process if it exceeded its limit, or ended before all tests had
/// results.
fn cut_off(test: &Test, ended: Ended, limit: Duration, is_cut: bool) -> Option<Ran> {
    let ending = match ended.status {
        None => Ending::TooLong(limit),
        Some(status) if is_cut => Ending::Died(status.to_string()),
        Some(_) => return None,
    };
    Some(Ran {
        name: format!("{} (all of its tests)", place(test)),
        took: ended.took,
        ending,
        stdout: ended.stdout,
        stderr: ended.stderr,
        notes: ended.notes,
    })
}
