//! One fault from its begin to its end, inside a lab: set, let loose, recorded, audited, mended by the script,
//! recorded again, undone.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::disturb::AtWork;
use super::group::Group;
use super::{Fault, OTHER, POLLER, Place, QUIET, kernel_events, settings};
use crate::placed;
use crate::processes;

const RECORDING: &str = "/tmp/run.vmn";
/// What nobody in the machine took.
const NOBODY: [&str; 3] = ["hw", "hv_or_hw", "unexplained"];
const SCRIPTS: &str = "/tmp/scripts";

/// What one recording said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// How long the quiet CPU was looked at, nanoseconds.
    pub runtime_ns: u64,
    /// What it lost to somebody who has a name or a witness, nanoseconds: without what has none: an emulated CPU
    /// waits for its turn, and nobody tells.
    pub noise_ns: u64,
    /// What each culprit had of it by the kernel's own events, nanoseconds, in the order of the faults.
    pub injected_ns: Vec<u64>,
    /// Records that were lost.
    pub lost_events: u64,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// With the fault.
    pub before: Recorded,
    /// `vmnoise.audit/1` of that.
    pub audit: Value,
    /// With what `apply.sh` set, and with the same let loose; `None` where only another start does it.
    pub after: Option<Recorded>,
    /// What `apply.sh` changed: file, what it was, what it became.
    pub changed: Vec<(String, String, String)>,
    /// Files that `undo.sh` did not leave as they had been.
    pub not_undone: Vec<String>,
}

/// Runs it; the settings are as they are to be at its end. Seconds are those of each recording.
///
/// # Errors
/// If something cannot be set, let loose, or recorded.
pub fn cycle(faults: &[&Fault], seconds: &str) -> Result<Outcome> {
    let is_of_group = faults.iter().any(|it| it.is_of_group);
    let _group = is_of_group.then(Group::enter).transpose()?;
    settings::clean();
    for (file, value) in faults.iter().flat_map(|it| it.settings) {
        settings::set(file, value)?;
    }
    place(faults, QUIET)?;
    // An audit looks at threads as they are: all stay until the end.
    let mut at_work = start(faults)?;
    let before = recorded(faults, &mut at_work, seconds)?;
    let audit = vmnoise(&["audit", RECORDING, "--format", "json", "--script", SCRIPTS])?;
    let audit = serde_json::from_slice(&audit.stdout)?;
    let mut outcome = Outcome {
        before,
        audit,
        after: None,
        changed: Vec::new(),
        not_undone: Vec::new(),
    };
    if faults
        .iter()
        .all(|it| it.place != Place::UntunedUntilNextStart)
    {
        let bad = settings::all();
        script("apply.sh")?;
        outcome.changed = differences(&bad, &settings::all());
        outcome.after = Some(recorded(faults, &mut at_work, seconds)?);
        script("undo.sh")?;
        let differences = differences(&bad, &settings::all()).into_iter();
        outcome.not_undone = differences.map(|(file, ..)| file).collect();
    }
    settings::clean();
    place(faults, OTHER)?;
    Ok(outcome)
}

/// Puts the kernel's threads of these faults on a CPU.
fn place(faults: &[&Fault], cpu: u32) -> Result<()> {
    for name in faults.iter().flat_map(|it| it.on_quiet) {
        let mut all = processes::all().into_iter();
        let thread = all.find(|it| it.name.starts_with(name));
        placed::pin(
            thread.with_context(|| format!("no thread {name}"))?.pid,
            cpu,
        )?;
    }
    Ok(())
}

/// The same let loose where all is as it is to be.
///
/// # Errors
/// If it cannot be let loose, or recorded.
pub fn again(faults: &[&Fault], seconds: &str) -> Result<Recorded> {
    settings::clean();
    recorded(faults, &mut start(faults)?, seconds)
}

/// Lets loose who comes in by them.
fn start(faults: &[&Fault]) -> Result<Vec<AtWork>> {
    let disturbers = faults.iter().filter_map(|it| it.disturber);
    disturbers.map(|it| it.start()).collect()
}

fn recorded(faults: &[&Fault], at_work: &mut [AtWork], seconds: &str) -> Result<Recorded> {
    let command = faults.first().map_or(POLLER, |it| it.command);
    let line = format!(
        "{command} --cpus {QUIET} --duration {seconds}s --format json --output {RECORDING}"
    );
    let words: Vec<&str> = line.split(' ').collect();
    // It refuses to overwrite what it did not write whole.
    let _ = fs::remove_file(RECORDING);
    kernel_events::begin()?;
    let output = vmnoise(&words);
    let trace = kernel_events::end()?;
    at_work.iter_mut().try_for_each(AtWork::have_not_ended)?;
    of(&serde_json::from_slice(&output?.stdout)?, &trace, faults)
}

/// What a summary says, and the kernel's events of the same time.
fn of(summary: &Value, trace: &str, faults: &[&Fault]) -> Result<Recorded> {
    let number = |at: &str| {
        let number = summary.pointer(at).and_then(Value::as_u64);
        number.with_context(|| format!("no {at} in {summary}"))
    };
    // When it began is told by any gap.
    let worst = "/worst/0";
    let from_ns = number(&format!("{worst}/start_mono_ns"))? - number(&format!("{worst}/at_ns"))?;
    let runtime_ns = number("/cpus/0/runtime_ns")?;
    let took = kernel_events::took(trace, from_ns, from_ns + runtime_ns)?;
    let of_culprit = |fault: &&Fault| {
        let is_its = |name: &str| fault.culprits.iter().any(|it| name.starts_with(it));
        took.iter()
            .filter(|(name, _)| is_its(name))
            .map(|(_, ns)| ns)
            .sum()
    };
    let of_nobody = NOBODY.iter().filter_map(|share| {
        let ns = summary.pointer(&format!("/cpus/0/shares_ns/{share}"));
        ns.and_then(Value::as_u64)
    });
    let of_nobody_ns: u64 = of_nobody.sum();
    Ok(Recorded {
        runtime_ns,
        noise_ns: number("/cpus/0/noise_ns")? - of_nobody_ns,
        injected_ns: faults.iter().map(of_culprit).collect(),
        lost_events: number("/lost_events")?,
    })
}

fn vmnoise(words: &[&str]) -> Result<Output> {
    run(Command::new("/bin/vmnoise").args(words))
}

/// What gives up a protection is a comment there: here it is meant.
fn script(name: &str) -> Result<()> {
    let path = format!("{SCRIPTS}/{name}");
    let script = fs::read_to_string(&path)?.replace("\n# change ", "\nchange ");
    fs::write(&path, script)?;
    run(Command::new("/bin/sh").arg(&path).env("PATH", "/bin")).map(drop)
}

fn run(command: &mut Command) -> Result<Output> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| command.get_program().display().to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{command:?}: {}: {said}",
        output.status
    );
    Ok(output)
}

fn differences(
    from: &BTreeMap<String, String>,
    to: &BTreeMap<String, String>,
) -> Vec<(String, String, String)> {
    let changed = from.iter().filter_map(|(file, was)| {
        // A thread may have ended.
        let now = to.get(file)?;
        (now != was).then(|| (file.clone(), was.trim().to_owned(), now.trim().to_owned()))
    });
    changed.collect()
}
