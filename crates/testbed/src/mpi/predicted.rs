//! Records the CPUs of the ranks with `vmnoise`, and predicts step times from the recording.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{MpiCollective, StepTimes};
use crate::run_to_end;

/// Real-time priority of the program's ranks (`mpi/steps.c`) and of the recorder. Ordinary tasks
/// must wait for both.
pub const PRIORITY: i32 = 10;

/// Predicted step time for two ranks.
#[derive(Debug, Clone, PartialEq)]
pub struct RankPrediction {
    /// Mean length of a step, nanoseconds.
    pub step_ns: f64,
    /// Culprits that make a step longer, and how much longer each makes it, in nanoseconds. The
    /// culprit with the largest time is first.
    pub culprits: Vec<(String, f64)>,
}

/// Records the CPUs of both ranks for `time`.
///
/// # Errors
/// If the recorder fails.
pub(super) fn record(file: &Path, time: Duration) -> Result<()> {
    let priority = format!("f:{PRIORITY}");
    let time = format!("{}ms", time.as_millis());
    let file = file
        .to_str()
        .context("the path of the recording is not UTF-8")?;
    let arguments = [
        "osnoise", "-c", "0-1", "-P", &priority, "-d", &time, "-o", file,
    ];
    done(&arguments)?;
    Ok(())
}

/// Predicts the length of steps from a recording. The steps have the same work as the measured
/// steps.
///
/// # Errors
/// If the recording cannot be read, or contains more than the expected blind spots, or there is no
/// prediction for two ranks.
pub(super) fn predict(
    file: &Path,
    measured: &StepTimes,
    collective: MpiCollective,
) -> Result<RankPrediction> {
    let (step, round) = (ns(measured.work_ns), ns(measured.collective_ns));
    let file = file
        .to_str()
        .context("the path of the recording is not UTF-8")?;
    let mut arguments = vec!["scale", file, "--ranks", "2", "--format", "json"];
    arguments.extend(["--step", &step, "--collective", collective.name()]);
    if collective == MpiCollective::Allreduce {
        arguments.extend(["--round", &round]);
    }
    let output = run_to_end(&arguments)?;
    let said = String::from_utf8_lossy(&output.stderr);
    let document: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("vmnoise {arguments:?}: {said}"))?;
    ensure!(
        delays_both_alike(&document),
        "the recording of two ranks hides more than expected: {document}"
    );
    RankPrediction::of(&document).with_context(|| format!("no prediction of two ranks: {document}"))
}

/// Returns whether all blind spots of the recording are expected. Tasks that could run before an
/// ordinary rank delay neither the recorder nor these ranks, which have the recorder's priority.
/// Times that the recorder did not observe remain: the tolerance of the comparison must cover them.
fn delays_both_alike(document: &Value) -> bool {
    let hidden = document["recordings"][0]["blind_spots"].as_array();
    let is_expected = |it: &Value| it["reason"] == "goes_first" || it["reason"] == "unplaced";
    hidden.is_some_and(|spots| spots.iter().all(is_expected))
}

fn ns(ns: u64) -> String {
    format!("{ns}ns")
}

/// Runs a `vmnoise` command that must succeed, and returns its stdout.
fn done(arguments: &[&str]) -> Result<String> {
    let output = run_to_end(arguments)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "vmnoise {arguments:?}: {said}");
    Ok(String::from_utf8(output.stdout)?)
}

impl RankPrediction {
    fn of(document: &Value) -> Option<RankPrediction> {
        let scale = &document["scales"][0];
        // The program ran on the recorded machine, within a minute of the recording.
        let step_ns = scale["of_recorded_gaps_ns"].as_f64()?;
        let without = scale["without"].as_array()?.iter().map(|without| {
            let suspect = &document["suspects"][without["suspect"].as_u64()? as usize];
            let who = suspect["name"].as_str().or(suspect["share"].as_str())?;
            Some((who.to_owned(), step_ns - without["step_ns"].as_f64()?))
        });
        let mut culprits: Vec<(String, f64)> = without.collect::<Option<_>>()?;
        culprits.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        Some(RankPrediction { step_ns, culprits })
    }
}
