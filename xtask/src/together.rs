//! All tests of one program in one process, side by side: a process for each of a thousand short
//! tests costs more than the tests, and tests that share an input would each make it again.
//!
//! Only what passes here is settled here. Each other test runs once more in a process of its own,
//! for an output of its own; but one that failed here has failed.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;

use crate::libtest::{self, Outcome};
use crate::suite::Test;
use crate::supervised::{self, Ended, Ending, Ran, Setting};

/// Runs tests of one program.
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
    let each = ended.took / u32::try_from(tests.len()).unwrap_or(u32::MAX);
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
            took: each,
            ending,
            stdout: Vec::new(),
            stderr: Vec::new(),
            notes: Vec::new(),
        });
    }
    let is_cut = outcomes.len() < tests.len();
    over.extend(cut_off(first, ended, limit, is_cut));
    Ok(over)
}

/// A test that failed beside the others of its program has failed, however it ends alone.
fn failed(mut alone: Ran) -> Ran {
    if !alone.is_bad() {
        alone.ending = Ending::Failed;
        let note = "failed beside the other tests of its program, and passed alone";
        alone.notes.push(note.to_owned());
    }
    alone
}

/// The process itself, if it ended before all of its tests had.
fn cut_off(test: &Test, ended: Ended, limit: Duration, is_cut: bool) -> Option<Ran> {
    let ending = match ended.status {
        None => Ending::TooLong(limit),
        Some(status) if is_cut => Ending::Died(status.to_string()),
        Some(_) => return None,
    };
    let program = test.program.file_name().unwrap_or_default();
    Some(Ran {
        name: format!("{} (all of its tests)", program.display()),
        took: ended.took,
        ending,
        stdout: ended.stdout,
        stderr: ended.stderr,
        notes: ended.notes,
    })
}
