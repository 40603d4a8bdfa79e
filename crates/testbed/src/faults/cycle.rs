//! Runs one experiment with faults inside a lab: sets the faults, starts disturbers, and records.
//! Then audits the recording, applies the script of the audit, records again, and undoes the
//! changes.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::disturb::AtWork;
use super::group::Group;
use super::{FaultPlace, InjectedFault, OTHER, POLLER, QUIET, kernel_events, settings};
use crate::placed;
use crate::processes;

const RECORDING: &str = "/tmp/run.vmn";
/// Shares for which no task or interrupt of the machine is responsible.
const NOBODY: [&str; 3] = ["hw", "hv_or_hw", "unexplained"];
const SCRIPTS: &str = "/tmp/scripts";

/// Times that one recording contains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordingFindings {
    /// Time for which the quiet CPU was measured, nanoseconds.
    pub runtime_ns: u64,
    /// Noise of the quiet CPU that has a culprit or a cause in this kernel, nanoseconds. Other
    /// noise is left out: an emulated CPU waits for its emulator, and no event shows this.
    pub noise_ns: u64,
    /// Time that the culprits of each fault had the quiet CPU, in the order of the faults,
    /// nanoseconds. This time comes from the kernel's own events.
    pub injected_ns: Vec<u64>,
    /// Number of lost records.
    pub lost_events: u64,
}

/// Result of [`cycle`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CycleOutcome {
    /// Findings of the recording with the faults.
    pub before: RecordingFindings,
    /// JSON of schema `vmnoise.audit/1` for the recording `before`.
    pub audit: Value,
    /// Findings of the recording after `apply.sh`, with the same disturbers. `None` if the change
    /// takes effect only after a reboot.
    pub after: Option<RecordingFindings>,
    /// Changes that `apply.sh` made: file, old content, new content.
    pub changed: Vec<(String, String, String)>,
    /// Files whose old content `undo.sh` did not restore.
    pub not_undone: Vec<String>,
}

/// Runs one experiment with these faults, and restores clean settings. Each recording takes
/// `seconds`.
///
/// # Errors
/// If a setting, a disturber or a recording fails.
pub fn cycle(faults: &[&InjectedFault], seconds: &str) -> Result<CycleOutcome> {
    let is_of_group = faults.iter().any(|it| it.is_of_group);
    let _group = is_of_group.then(Group::enter).transpose()?;
    settings::clean();
    for (file, value) in faults.iter().flat_map(|it| it.settings) {
        settings::set(file, value)?;
    }
    place(faults, QUIET)?;
    // An audit reads the state of threads, so all of them run until the end.
    let mut at_work = start(faults)?;
    let before = recorded(faults, &mut at_work, seconds)?;
    let audit = vmnoise(&["audit", RECORDING, "--format", "json", "--script", SCRIPTS])?;
    let audit = serde_json::from_slice(&audit.stdout)?;
    let mut outcome = CycleOutcome {
        before,
        audit,
        after: None,
        changed: Vec::new(),
        not_undone: Vec::new(),
    };
    if faults
        .iter()
        .all(|it| it.place != FaultPlace::UntunedUntilNextStart)
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

/// Pins the kernel threads that these faults put on the quiet CPU to `cpu`.
fn place(faults: &[&InjectedFault], cpu: u32) -> Result<()> {
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

/// Records with the disturbers of these faults while all settings are clean.
///
/// # Errors
/// If a disturber cannot be started, or the recording fails.
pub fn again(faults: &[&InjectedFault], seconds: &str) -> Result<RecordingFindings> {
    settings::clean();
    recorded(faults, &mut start(faults)?, seconds)
}

/// Starts the disturbers of these faults.
fn start(faults: &[&InjectedFault]) -> Result<Vec<AtWork>> {
    let disturbers = faults.iter().filter_map(|it| it.disturber);
    disturbers.map(|it| it.start()).collect()
}

fn recorded(
    faults: &[&InjectedFault],
    at_work: &mut [AtWork],
    seconds: &str,
) -> Result<RecordingFindings> {
    let command = faults.first().map_or(POLLER, |it| it.command);
    let line = format!(
        "{command} --cpus {QUIET} --duration {seconds}s --format json --output {RECORDING}"
    );
    let words: Vec<&str> = line.split(' ').collect();
    // `vmnoise` refuses to overwrite a file that is not a complete recording.
    let _ = fs::remove_file(RECORDING);
    kernel_events::begin()?;
    let output = vmnoise(&words);
    let trace = kernel_events::end()?;
    at_work.iter_mut().try_for_each(AtWork::have_not_ended)?;
    of(&serde_json::from_slice(&output?.stdout)?, &trace, faults)
}

/// Combines a summary with the kernel's events from the same time.
fn of(summary: &Value, trace: &str, faults: &[&InjectedFault]) -> Result<RecordingFindings> {
    let number = |at: &str| {
        let number = summary.pointer(at).and_then(Value::as_u64);
        number.with_context(|| format!("no {at} in {summary}"))
    };
    // Any gap shows when the recording began: its start is given on two clocks.
    let worst = "/worst/0";
    let from_ns = number(&format!("{worst}/start_mono_ns"))? - number(&format!("{worst}/at_ns"))?;
    let runtime_ns = number("/cpus/0/runtime_ns")?;
    let took = kernel_events::took(trace, from_ns, from_ns + runtime_ns)?;
    let of_culprit = |fault: &&InjectedFault| {
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
    Ok(RecordingFindings {
        runtime_ns,
        noise_ns: number("/cpus/0/noise_ns")? - of_nobody_ns,
        injected_ns: faults.iter().map(of_culprit).collect(),
        lost_events: number("/lost_events")?,
    })
}

fn vmnoise(words: &[&str]) -> Result<Output> {
    run(Command::new("/bin/vmnoise").args(words))
}

/// Runs a script of an audit with its optional changes. The script has changes that give up a
/// protection as comments, and this function makes them active.
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
        // The thread that this file belongs to may have ended.
        let now = to.get(file)?;
        (now != was).then(|| (file.clone(), was.trim().to_owned(), now.trim().to_owned()))
    });
    changed.collect()
}
