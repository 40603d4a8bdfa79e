//! `vmnoise explain`: explains a recording in the same way as a live run, or joins a guest's
//! recording with its host's.

use anyhow::Result;
use vmnoise_console::status::ExitStatus;
use vmnoise_engine::{Session, TerminalView};
use vmnoise_events::{MeasuringCommand, RunFacts};
use vmnoise_render::exits::{ExitsView, Layout};
use vmnoise_render::format::{Format, LatencyFormat};
use vmnoise_render::summary_view::Final;
use vmnoise_render::timerlat::at_stop::StackFormat;
use vmnoise_render::timerlat::top::LatencyTop;
use vmnoise_render::trace::Trace;
use vmnoise_views::{Meanwhile, News, ResultView};

use super::join;
use super::replay::ReplayedRecording;
use crate::args::ExplainArguments;
use crate::progress;

/// Prints the summary of the recording. If the file ends early, prints the readable part, and the
/// fault on stderr.
pub fn run(arguments: &ExplainArguments) -> Result<ExitStatus> {
    if let Some(host) = &arguments.host {
        return join::run(arguments, host);
    }
    if arguments.trace {
        progress::none();
    }
    let mut recording = ReplayedRecording::open(&arguments.recording)?;
    let facts = recording.facts.clone();
    let mut view = view(arguments, &facts);
    view.see(News::Begin(&facts));
    let mut session = Session::new(&facts, None, TerminalView::new(&mut *view, None));
    recording.each(|event| {
        session.accept(event);
        Ok(())
    })?;
    session.finish().print(&facts, &mut *view)?;
    Ok(recording.report())
}

fn view(arguments: &ExplainArguments, facts: &RunFacts) -> Box<dyn ResultView> {
    let format = arguments.format;
    match (facts.workload, arguments.trace) {
        (MeasuringCommand::Exits, true) => Box::new(ExitsView::new(Layout::Trace, format)),
        (MeasuringCommand::Exits, false) => {
            Box::new(ExitsView::new(Layout::Top(Meanwhile::Nothing), format))
        }
        (MeasuringCommand::Timerlat, true) => {
            Box::new(Trace::of_wakeups(false, Some(StackFormat::default())))
        }
        (MeasuringCommand::Timerlat, false) => Box::new(LatencyTop::of_recording(match format {
            Format::Text => LatencyFormat::Text,
            Format::Json => LatencyFormat::Json,
        })),
        (_, true) => Box::new(Trace::of_gaps(false)),
        (_, false) => Box::new(Final { format }),
    }
}
