//! Writes the table of an MPI program's step times, predicted and measured.

use std::process::Command;

use crate::mpi::{PredictionComparison, SceneOutcome};

/// Returns the section with the step times of each comparison.
pub fn mpi(found: &[(PredictionComparison<'_>, Vec<SceneOutcome>)]) -> String {
    let mut text = format!(
        "### Steps of an MPI program, predicted and measured\n\n\
         {} and {}, two ranks on two CPUs, 1 ms of work in a step. This machine had other load. Each figure is the \
         mean of 400 steps, and the median of three rounds.\n\n\
         | started by | a step ends with | disturbed | predicted µs | measured µs | difference % | allowed % | first culprit | predicted µs without it |\n\
         |---|---|---|---|---|---|---|---|---|\n",
        version("mpirun", "--version"),
        version("slurmctld", "-V")
    );
    for (comparison, outcomes) in found {
        text.extend(outcomes.iter().map(|outcome| row(comparison, outcome)));
    }
    text
}

fn row(comparison: &PredictionComparison<'_>, outcome: &SceneOutcome) -> String {
    let PredictionComparison {
        launcher,
        collective,
        bursts,
        ..
    } = comparison;
    let disturbed = match outcome.scene.is_quiet() {
        true => outcome.scene.name.to_owned(),
        false => format!(
            "{}: {:?} of {:?}",
            outcome.scene.name, bursts.burst, bursts.every
        ),
    };
    let [predicted_ns, measured_ns] = outcome.steps_ns();
    let last = outcome.rounds.last();
    let last =
        last.and_then(|(predicted, _)| Some((predicted.step_ns, predicted.culprits.first()?)));
    let (blamed, without) = match last {
        Some((step_ns, (who, gain_ns))) => (format!("`{who}`"), us(step_ns - gain_ns)),
        None => ("-".to_owned(), "-".to_owned()),
    };
    let percent = |part: f64| format!("{:.1}", 100.0 * part);
    format!(
        "| `{}` | {} | {disturbed} | {} | {} | {} | {} | {blamed} | {without} |\n",
        launcher.name(),
        collective.name(),
        us(predicted_ns),
        us(measured_ns),
        percent(outcome.apart()),
        percent(outcome.allowed)
    )
}

fn us(ns: f64) -> String {
    format!("{:.0}", ns / 1e3)
}

/// Returns the first line that the program prints with the argument for its version.
fn version(program: &str, argument: &str) -> String {
    let output = Command::new(program).arg(argument).output();
    let output = output.map(|output| output.stdout).unwrap_or_default();
    let said = String::from_utf8_lossy(&output);
    said.lines().next().unwrap_or(program).to_owned()
}
