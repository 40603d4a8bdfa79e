//! `vmnoise scale`: predicts how noise slows a program whose ranks wait for the slowest rank.

use anyhow::{Result, anyhow, bail};
use vmnoise_console::say;
use vmnoise_console::status::{ExitStatus, UsageError};
use vmnoise_events::human;
use vmnoise_predict::scale::{BspProgram, Collective, HostCpus, Prediction, has_a_step, predict};
use vmnoise_render::recorded::ReadRecording;
use vmnoise_render::scale::{ScalePrediction, print};

use super::records;
use crate::args::{CollectiveName, ScaleArguments};

/// Predicts, prints the result, and returns the status.
pub fn run(arguments: &ScaleArguments) -> Result<ExitStatus> {
    let mut recordings = records::read_all(&arguments.recordings)?;
    if arguments.co_scheduled && recordings.len() > 1 {
        let what = "--co-scheduled takes one recording, because several hosts share no clock";
        return Err(UsageError(what.into()).into());
    }
    if arguments.co_scheduled && arguments.collective == CollectiveName::Allreduce {
        let what = "--co-scheduled works only with --collective barrier";
        return Err(UsageError(what.into()).into());
    }
    let program = BspProgram {
        step_ns: arguments.step,
        collective: match arguments.collective {
            CollectiveName::Barrier => Collective::Barrier,
            CollectiveName::Allreduce => Collective::Allreduce {
                round_ns: arguments.round,
            },
        },
        in_phase: arguments.co_scheduled,
    };
    let prediction = predicted(&mut recordings, &program, &arguments.ranks.0)?;
    let predicted = ScalePrediction {
        recordings: &recordings,
        program: &program,
        prediction: &prediction,
    };
    print(arguments.format, &predicted)?;
    Ok(match predicted.blind_spots().is_empty() {
        true => ExitStatus::Ok,
        false => ExitStatus::MachineCannot,
    })
}

/// Returns the prediction. Leaves out runs of a data set in which no step ends, and reports them.
fn predicted(
    recordings: &mut Vec<ReadRecording>,
    program: &BspProgram,
    ranks: &[u64],
) -> Result<Prediction> {
    refuse_gapless(recordings)?;
    if let Some(prediction) = predict(&hosts(recordings), program, ranks) {
        return Ok(prediction);
    }
    let all = std::mem::take(recordings);
    let has = |recorded: &ReadRecording| has_a_step(&host(recorded), program);
    let (with, without): (Vec<ReadRecording>, Vec<ReadRecording>) = all.into_iter().partition(has);
    for recorded in without {
        let why = format!(
            "{} measured {}, which is too short for a step of {}",
            recorded.file,
            human(recorded.shortest_ns()),
            human(program.step_ns)
        );
        if with.is_empty() || !recorded.of_data_set {
            bail!("{why}: record for longer, or predict a shorter --step");
        }
        say::say(format_args!("left out: {why}"));
    }
    *recordings = with;
    refuse_gapless(recordings)?;
    predict(&hosts(recordings), program, ranks)
        .ok_or_else(|| anyhow!("no step ends in these runs: record for longer"))
}

fn refuse_gapless(recordings: &[ReadRecording]) -> Result<()> {
    if recordings.iter().all(|it| gaps(it) == 0) {
        let lengths = recordings.iter().map(|it| it.coverage.threshold_ns);
        bail!(
            "{} no gap of {} or more: record for longer, or with a lower --threshold",
            match recordings {
                [only] => format!("{} has", only.file),
                all => format!("these {} hosts have", all.len()),
            },
            human(lengths.max().unwrap_or(0))
        );
    }
    Ok(())
}

fn hosts(recordings: &[ReadRecording]) -> Vec<HostCpus<'_>> {
    recordings.iter().map(host).collect()
}

fn host(recorded: &ReadRecording) -> HostCpus<'_> {
    HostCpus {
        cpus: recorded.cpus.iter().map(|cpu| &cpu.record).collect(),
    }
}

fn gaps(recorded: &ReadRecording) -> usize {
    recorded.cpus.iter().map(|cpu| cpu.record.gaps()).sum()
}
