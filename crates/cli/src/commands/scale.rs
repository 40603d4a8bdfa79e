//! `vmnoise scale`: what becomes of a program whose ranks wait for the slowest.

use anyhow::{Result, bail};
use vmnoise_predict::scale::{Collective, Host, Program, predict};

use super::records;
use crate::args::{CollectiveName, ScaleArguments};
use crate::output::recorded::Recorded;
use crate::output::scale::{Predicted, print};
use crate::status::{Status, UsageError};
use crate::units::human;

/// Predicts, and prints.
pub fn run(arguments: &ScaleArguments) -> Result<Status> {
    let recordings = records::read_all(&arguments.recordings)?;
    if arguments.co_scheduled && recordings.len() > 1 {
        let what = "--co-scheduled takes one recording: no clock says what several hosts did at the same moment";
        return Err(UsageError(what.into()).into());
    }
    if arguments.co_scheduled && arguments.collective == CollectiveName::Allreduce {
        let what = "--co-scheduled takes --collective barrier: what rounds of hosts in phase take is not estimated";
        return Err(UsageError(what.into()).into());
    }
    if recordings.iter().all(|it| gaps(it) == 0) {
        let lengths = recordings.iter().map(|it| it.limits.threshold_ns);
        bail!(
            "{} no gap of {} or more: record for longer, or with a lower --threshold",
            match &recordings[..] {
                [only] => format!("{} has", only.file),
                all => format!("these {} hosts have", all.len()),
            },
            human(lengths.max().unwrap_or(0))
        );
    }
    let program = Program {
        step_ns: arguments.step,
        collective: match arguments.collective {
            CollectiveName::Barrier => Collective::Barrier,
            CollectiveName::Allreduce => Collective::Allreduce {
                round_ns: arguments.round,
            },
        },
        in_phase: arguments.co_scheduled,
    };
    let hosts = recordings.iter().map(|recorded| Host {
        cpus: recorded.cpus.iter().map(|cpu| &cpu.record).collect(),
    });
    let hosts: Vec<Host<'_>> = hosts.collect();
    let Some(prediction) = predict(&hosts, &program, &arguments.ranks.0) else {
        let shortest = recordings.iter().min_by_key(|it| it.shortest_ns());
        let (file, ns) = shortest.map_or(("", 0), |it| (&it.file, it.shortest_ns()));
        bail!(
            "{file} measured {}, which leaves no step of {}: record for longer, or predict a shorter --step",
            human(ns),
            human(arguments.step)
        );
    };
    print(
        arguments.format,
        &Predicted {
            recordings: &recordings,
            program: &program,
            prediction: &prediction,
        },
    )?;
    Ok(Status::Ok)
}

fn gaps(recorded: &Recorded) -> usize {
    recorded.cpus.iter().map(|cpu| cpu.record.gaps()).sum()
}
