//! `vmnoise explain`: a recording goes through the same path as a live run, and a guest's
//! may be joined with its host's.

use anyhow::Result;
use vmnoise_events::{RunFacts, Workload};
use vmnoise_recording::Reader;

use super::join;
use super::replay::{Replayed, name_file, read, tell_ending};
use crate::args::{ExplainArguments, LatencyFormat};
use crate::output::exits::{ExitsView, Layout, WhileRunning};
use crate::output::format::Format;
use crate::output::timerlat;
use crate::output::trace::Trace;
use crate::output::view::{Final, View};
use crate::progress::{self, Input};
use crate::run::exits_session::{ExitsOutcome, ExitsSession};
use crate::run::session::{Outcome, Session};
use crate::status::Status;

/// Prints what the recording holds. What can be read is printed even where the
/// file ends too early; then the fault follows on stderr.
pub fn run(arguments: &ExplainArguments) -> Result<Status> {
    if let Some(host) = &arguments.host {
        return join::run(arguments, host);
    }
    let path = &arguments.recording;
    if arguments.trace {
        progress::none();
    }
    let reader = progress::open(path).map_err(|error| name_file(error, path))?;
    let facts = reader.facts().clone();
    let ending = match facts.workload {
        Workload::Vcpus => exits(arguments, &facts, reader)?,
        _ => gaps(arguments, &facts, reader)?,
    };
    tell_ending(ending, path)?;
    Ok(Status::Ok)
}

fn gaps(arguments: &ExplainArguments, facts: &RunFacts, reader: Reader<Input>) -> Result<Replayed> {
    let mut view: Box<dyn View> = match (facts.workload, arguments.trace) {
        (Workload::Timer, true) => Box::new(Trace::of_wakeups(false, true)),
        (Workload::Timer, false) => {
            Box::new(timerlat::top::Top::of_recording(match arguments.format {
                Format::Text => LatencyFormat::Text,
                Format::Json => LatencyFormat::Json,
            }))
        }
        (_, true) => Box::new(Trace::of_gaps(false)),
        (_, false) => Box::new(Final {
            format: arguments.format,
        }),
    };
    view.begin(facts);
    let mut session = Session::new(facts, None, view.as_mut());
    let ending = read(reader, &mut |event| session.accept(event));
    let Outcome { summary, trace, .. } = session.finish();
    view.finish(facts, &summary, &trace)?;
    Ok(ending)
}

fn exits(
    arguments: &ExplainArguments,
    facts: &RunFacts,
    reader: Reader<Input>,
) -> Result<Replayed> {
    let layout = match arguments.trace {
        true => Layout::Trace,
        false => Layout::Top {
            live: WhileRunning::Silent,
        },
    };
    let mut view = ExitsView::new(layout, arguments.format);
    let mut session = ExitsSession::new(facts, None, &mut view);
    let ending = read(reader, &mut |event| session.accept(event));
    let ExitsOutcome { run, measured, .. } = session.finish();
    view.finish(facts, measured, &run, &[])?;
    Ok(ending)
}
