//! `vmnoise explain`: explains a recording in the same way as a live run, or joins a guest's
//! recording with its host's.

use anyhow::Result;
use vmnoise_events::{RunFacts, Workload};

use super::join;
use super::replay::Recording;
use crate::args::ExplainArguments;
use crate::output::exits::{ExitsView, Layout};
use crate::output::format::{Format, LatencyFormat};
use crate::output::summary_view::Final;
use crate::output::timerlat::top::Top;
use crate::output::trace::Trace;
use crate::progress;
use crate::run::{Meanwhile, Session, Shown, View};
use crate::status::Status;

/// Prints the summary of the recording. If the file ends early, prints the readable part, and the
/// fault on stderr.
pub fn run(arguments: &ExplainArguments) -> Result<Status> {
    if let Some(host) = &arguments.host {
        return join::run(arguments, host);
    }
    if arguments.trace {
        progress::none();
    }
    let mut recording = Recording::open(&arguments.recording)?;
    let facts = recording.facts.clone();
    let mut view = view(arguments, &facts);
    view.begin(&facts);
    let mut session = Session::new(&facts, None, Shown::new(&mut *view, None));
    recording.each(|event| {
        session.accept(event);
        Ok(())
    })?;
    session.finish().print(&facts, &mut *view)?;
    Ok(recording.report())
}

fn view(arguments: &ExplainArguments, facts: &RunFacts) -> Box<dyn View> {
    let format = arguments.format;
    match (facts.workload, arguments.trace) {
        (Workload::Exits, true) => Box::new(ExitsView::new(Layout::Trace, format)),
        (Workload::Exits, false) => {
            Box::new(ExitsView::new(Layout::Top(Meanwhile::Nothing), format))
        }
        (Workload::Timerlat, true) => Box::new(Trace::of_wakeups(false, true)),
        (Workload::Timerlat, false) => Box::new(Top::of_recording(match format {
            Format::Text => LatencyFormat::Text,
            Format::Json => LatencyFormat::Json,
        })),
        (_, true) => Box::new(Trace::of_gaps(false)),
        (_, false) => Box::new(Final { format }),
    }
}
