//! The commands that measure, wherever they run.

use crate::scenario::{Cell, Measure, Workload};

/// The recording of this repetition, from 1 on, inside its machine.
pub(super) fn recording(repetition: u32) -> String {
    format!("/tmp/{}", file(repetition))
}

/// What it is called outside.
pub(super) fn file(repetition: u32) -> String {
    format!("measured-{repetition}.vmn")
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
        Workload::Osnoise => format!("vmnoise osnoise -q -d {duration} -o {output}"),
    }
}

/// Begins beside those after it what loads the machine: tasks of ordinary priority.
pub(super) const SYSTEM_CALLS: &str = "& lab-disturb calls 0";
