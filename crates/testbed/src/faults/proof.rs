//! Boots labs, causes faults in them, and compares the findings of `vmnoise audit` with these
//! faults.

use std::time::Duration;

use anyhow::{Context, Result};

use super::cycle::{CycleOutcome, RecordingFindings};
use super::judge::{FaultVerdict, explaining, judge};
use super::{DisturberKind, FaultPlace, InjectedFault, TUNED, named};
use crate::bed::{CommandOutput, DebianKernel, DebianProgram, Lab, LabReport};
use crate::lab_program;

/// Length of each recording in seconds.
const SECONDS: u64 = 1;
/// Exponent of the virtual time: an instruction takes 2^1 ns. With 2^0 ns, a second of virtual time
/// takes longer.
const SHIFT: u8 = 1;
/// Maximum time of a lab before it counts as hung. A lab causes many faults, one after the other.
const PATIENCE: Duration = Duration::from_secs(1_800);
/// Kernel of a second machine without faults. In this kernel, interrupts and softirqs run in
/// threads of their own.
const OTHER_KERNEL: DebianKernel = DebianKernel::Rt;

/// Results of a proof.
#[derive(Debug, Clone, PartialEq)]
pub struct Proof {
    /// `uname -r` of the machine on which the faults were caused.
    pub kernel_version: String,
    /// For each set of faults, the verdict on each of its faults.
    pub judged: Vec<Vec<FaultVerdict>>,
    /// For each machine without faults, its `uname -r`, and the rules whose findings explained lost
    /// time.
    pub clean: Vec<(String, Vec<String>)>,
}

/// Causes each of these sets of faults, with the faults of one set at the same time. Each boot with
/// [`TUNED`] starts with a recording without faults.
///
/// # Errors
/// If a lab fails, or its output cannot be read.
pub fn prove(sets: &[&[&str]]) -> Result<Proof> {
    let sets: Vec<Vec<&InjectedFault>> = sets
        .iter()
        .map(|names| faults(names))
        .collect::<Result<_>>()?;
    let of = |place: FaultPlace| -> Vec<&Vec<&InjectedFault>> {
        let is_there = |set: &&Vec<&InjectedFault>| set.iter().any(|it| it.place == place);
        sets.iter().filter(is_there).collect()
    };
    let [tuned, untuned, until] = [
        FaultPlace::Tuned,
        FaultPlace::Untuned,
        FaultPlace::UntunedUntilNextStart,
    ]
    .map(of);
    let commands = |what: &str, sets: &[&Vec<&InjectedFault>]| -> Vec<String> {
        sets.iter().map(|set| command(what, set)).collect()
    };

    let mut told = vec![command("cycle", &[])];
    told.extend(commands("cycle", &tuned));
    told.extend(commands("again", &until));
    let told = boot(
        DebianKernel::Cloud,
        TUNED,
        &[&tuned[..], &until].concat(),
        &told,
    )?;
    let other = boot(OTHER_KERNEL, TUNED, &[], &[command("cycle", &[])])?;
    let clean = [&told, &other].map(of_clean);
    let clean = clean.into_iter().collect::<Result<_>>()?;
    let outputs = told.outputs.get(1..).context("no output")?;
    let (of_tuned, again) = outputs.split_at(tuned.len());
    let mut judged = Vec::new();
    for (set, output) in tuned.iter().zip(of_tuned) {
        judged.push(judged_by(set, output, None)?);
    }

    let cycles = [&untuned[..], &until].concat();
    if !cycles.is_empty() {
        let commands = commands("cycle", &cycles);
        let not_told = boot(DebianKernel::Cloud, "", &cycles, &commands)?;
        let nothing = untuned.iter().map(|_| None);
        let again = nothing.chain(again.iter().map(Some));
        for ((set, output), again) in cycles.iter().zip(&not_told.outputs).zip(again) {
            judged.push(judged_by(set, output, again)?);
        }
    }
    Ok(Proof {
        kernel_version: told.kernel_version,
        judged,
        clean,
    })
}

/// Returns the machine's `uname -r`, and the rules whose findings explained lost time in the
/// machine's first recording, which has no faults.
fn of_clean(report: &LabReport) -> Result<(String, Vec<String>)> {
    let output = report.outputs.first().context("no output")?;
    let outcome: CycleOutcome = serde_json::from_value(output.json()?)?;
    let rules = explaining(&outcome.audit)?.into_iter();
    Ok((
        report.kernel_version.clone(),
        rules.map(str::to_owned).collect(),
    ))
}

/// Compares the output of a cycle with the faults that were caused.
fn judged_by(
    set: &[&InjectedFault],
    output: &CommandOutput,
    again: Option<&CommandOutput>,
) -> Result<Vec<FaultVerdict>> {
    let outcome: CycleOutcome = serde_json::from_value(output.json()?)?;
    let after = again.map(CommandOutput::json).transpose()?;
    let after: Option<RecordingFindings> = after.map(serde_json::from_value).transpose()?;
    judge(set, &outcome, after.as_ref()).with_context(|| format!("{outcome:?}"))
}

fn faults(names: &[&str]) -> Result<Vec<&'static InjectedFault>> {
    let faults = names
        .iter()
        .map(|name| named(name).with_context(|| format!("no fault is called {name}")));
    faults.collect()
}

fn command(what: &str, set: &[&InjectedFault]) -> String {
    let names = set.iter().map(|it| format!(" {}", it.name));
    format!("lab-fault {what} {SECONDS}{}", names.collect::<String>())
}

fn boot(
    kernel: DebianKernel,
    words: &str,
    sets: &[&Vec<&InjectedFault>],
    commands: &[String],
) -> Result<LabReport> {
    let lab = Lab::kernel(kernel)
        .cpus(2)
        .virtual_time(SHIFT)
        .shell()
        .command_line(words)
        .patience(PATIENCE)
        .program(&lab_program("lab-fault")?);
    let is_merged = sets
        .iter()
        .copied()
        .flatten()
        .any(|it| it.disturber == Some(DisturberKind::Mergeable));
    let lab = if is_merged {
        lab.packaged(DebianProgram::StressNg)
    } else {
        lab
    };
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    lab.run(&commands)
}
