//! The commands that measure, wherever they run.

use anyhow::{Result, ensure};
use vmnoise_labs::bed::CommandOutput;

use crate::scenario::{Cell, Exercise, Hypervisor, Load, Measure, Workload};

/// The recording of this repetition, from 1 on, inside its machine.
pub(super) fn recording(repetition: u32) -> String {
    format!("/tmp/{}", file(repetition))
}

/// What it is called outside.
pub(super) fn file(repetition: u32) -> String {
    format!("measured-{repetition}.vmn")
}

/// What the guest said in this repetition, where it says something.
pub(super) fn said(repetition: u32) -> String {
    format!("measured-{repetition}.json")
}

/// All repetitions.
pub(super) fn repetitions(measure: &Measure) -> impl Iterator<Item = u32> + use<> {
    1..=measure.repeat
}

/// The command of a repetition.
pub(super) fn command(cell: &Cell, measure: &Measure, repetition: u32) -> String {
    let (duration, output) = (measure.duration, recording(repetition));
    match measure.workload {
        Workload::Timerlat | Workload::Cyclictest => {
            let period = cell.period;
            format!("vmnoise timerlat -q -p {period} -d {duration} -o {output}")
        }
        Workload::Osnoise if cell.hypervisor == Hypervisor::Microvm => {
            format!("vmnoise microvm -d {duration} -o {output}")
        }
        Workload::Osnoise => format!("vmnoise osnoise -q -d {duration} -o {output}"),
        Workload::Exercise => {
            let exercise = cell.exercise.unwrap_or(Exercise::Cpuid);
            format!("vmnoise microvm --exercise {exercise} -d {duration} --format json")
        }
    }
}

/// All repetitions, and then their recordings one after the other, as text.
pub(super) fn commands(cell: &Cell, measure: &Measure) -> Vec<String> {
    let print = |at| format!("lab-guest print {}", recording(at));
    let measured = repetitions(measure).map(|at| command(cell, measure, at));
    measured.chain(repetitions(measure).map(print)).collect()
}

/// What those commands said, and nothing else: the recordings by the names of their files.
///
/// # Errors
/// If one of them failed.
pub(super) fn recordings(
    measure: &Measure,
    outputs: &[CommandOutput],
) -> Result<Vec<(String, Vec<u8>)>> {
    let count = measure.repeat as usize;
    ensure!(outputs.len() == 2 * count, "{} results", outputs.len());
    let (measured, printed) = outputs.split_at(count);
    for output in measured {
        output.text()?;
    }
    let named = repetitions(measure).zip(printed);
    named
        .map(|(at, output)| Ok((file(at), output.file()?)))
        .collect()
}

/// Begins, beside those after it, what loads the machine.
pub(super) fn load(cell: &Cell) -> Option<&'static str> {
    match cell.load {
        Load::SystemCalls => Some("& lab-disturb calls 0"),
        Load::Bursts => Some("& lab-disturb turns 0 1000 10007 /tmp/turns"),
        Load::Idle | Load::StressNg => None,
    }
}
