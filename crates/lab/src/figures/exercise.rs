//! Reads the figures of exits that a guest makes on purpose. Their lengths come from the guest's
//! clock and from the host's recording.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use hdrhistogram::{Histogram, RecordError};
use serde_json::Value;
use vmnoise_explain::{ExitExplainer, NamedExit, TracedExit};
use vmnoise_recording::RecordingReader;

use super::{DIGITS, Makers, RepetitionFigures, Who, lengths_of};

/// Reads the figures from two files with the same name: the host's recording, and the guest's
/// output as JSON.
pub(super) fn figures(recording: &Path) -> Result<RepetitionFigures> {
    let said = recording.with_extension("json");
    let place = || said.display().to_string();
    let guest: Value = serde_json::from_slice(&std::fs::read(&said).with_context(place)?)?;
    let exercise = guest["options"]["exercise"].as_str();
    let exercise = exercise.with_context(|| format!("{} names no exercise", place()))?;
    let of_guest = &guest["cpus"][0];
    let made = of_guest["count"].as_u64().unwrap_or(0);

    let mut reader = RecordingReader::open(recording)?;
    let kernel = reader.facts().host.kernel.to_string();
    let mut explainer = ExitExplainer::with_trace(reader.facts());
    let mut exits = Exits::of(exercise)?;
    reader.for_each(&mut |event| {
        explainer.push(event, &mut |_| ());
        exits.take(explainer.take_trace());
    })?;
    explainer.run_out(&mut |_| ());
    exits.take(explainer.take_trace());
    exits.recorded?;
    let run = explainer.finish();
    let place = recording.display();
    ensure!(run.complete, "{place} was cut off");
    // The guest also makes such exits while it starts, so the recording may have more.
    let recorded = exits.light + exits.heavy;
    ensure!(
        recorded >= made || run.lost_events > 0,
        "the guest made {made} exits, but its host recorded only {recorded}"
    );
    let worst = exits
        .worst
        .with_context(|| format!("{place} has no exit for {exercise}"))?;
    let Makers {
        who,
        unexplained_ns,
        load_ns,
        net_rx_ns,
    } = Makers::of(parts(&worst));
    let lost = Some(run.lost_events).filter(|lost| *lost > 0);
    Ok(RepetitionFigures {
        lengths: lengths_of(&exits.lengths),
        worst_ns: worst.exit.dur_ns(),
        who,
        unexplained_ns,
        load_ns,
        net_rx_ns,
        light: Some(exits.light),
        heavy: Some(exits.heavy),
        overhead_ns: exits.overhead_ns.checked_div(recorded),
        in_guest_ns: of_guest["exit_ns"]["p50"].as_u64(),
        kernel,
        is_joined: true,
        caveats: lost
            .map(|lost| format!("{lost} events of the host were lost"))
            .into_iter()
            .collect(),
        ..RepetitionFigures::default()
    })
}

/// Exits for one reason.
struct Exits {
    /// Beginning of the reason's name. AMD and Intel CPUs have the same beginning.
    exercise: String,
    lengths: Histogram<u64>,
    light: u64,
    heavy: u64,
    /// Sum over all exits, in nanoseconds.
    overhead_ns: u64,
    worst: Option<NamedExit>,
    /// Error if the length of an exit could not be stored in `lengths`.
    recorded: Result<(), RecordError>,
}

impl Exits {
    fn of(exercise: &str) -> Result<Exits> {
        Ok(Exits {
            exercise: exercise.to_owned(),
            lengths: Histogram::new(DIGITS)?,
            light: 0,
            heavy: 0,
            overhead_ns: 0,
            worst: None,
            recorded: Ok(()),
        })
    }

    fn take(&mut self, exits: Vec<TracedExit>) {
        for TracedExit { exit, .. } in exits {
            // The reason's name is `io` on AMD CPUs, and `IO_INSTRUCTION` on Intel CPUs.
            let reason = exit.exit.reason.name().to_lowercase();
            if !reason.starts_with(&self.exercise) {
                continue;
            }
            let ns = exit.exit.dur_ns();
            if let Err(error) = self.lengths.record(ns) {
                self.recorded = Err(error);
            }
            self.light += u64::from(!exit.exit.heavy);
            self.heavy += u64::from(exit.exit.heavy);
            self.overhead_ns += exit.exit.overhead_ns();
            if self.worst.as_ref().is_none_or(|it| it.exit.dur_ns() < ns) {
                self.worst = Some(exit);
            }
        }
    }
}

fn parts(exit: &NamedExit) -> impl Iterator<Item = Who> {
    exit.parts.iter().map(|part| Who {
        share: part.share.name().to_owned(),
        name: part.source.as_ref().map(ToString::to_string),
        ns: part.ns,
    })
}
