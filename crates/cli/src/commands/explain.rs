//! `vmnoise explain`: a recording goes through the same path as a live run.

use std::path::Path;

use anyhow::Result;
use vmnoise_recording::{Ending, ReadError, Reader};

use crate::args::ExplainArguments;
use crate::output::osnoise_trace::Trace;
use crate::output::view::{Final, View};
use crate::session::{Outcome, Session};
use crate::status::Status;

/// Prints what the recording holds. What can be read is printed even where the
/// file ends too early; then the fault follows on stderr.
pub fn run(arguments: &ExplainArguments) -> Result<Status> {
    let path = &arguments.recording;
    let mut reader = Reader::open(path).map_err(|error| name_file(error, path))?;
    let facts = reader.facts().clone();
    let mut view: Box<dyn View> = match arguments.trace {
        true => Box::new(Trace::default()),
        false => Box::new(Final {
            format: arguments.format,
        }),
    };
    view.begin(&facts);
    let mut session = Session::new(&facts, None, view.as_mut());
    let ending = reader.for_each(&mut |event| session.accept(event));
    let Outcome { summary, trace, .. } = session.finish();
    view.finish(&facts, &summary, &trace)?;
    let ending = ending.map_err(|error| name_file(error, path))?;
    if !matches!(ending, Ending::Complete) {
        eprintln!(
            "vmnoise: {}: the run that wrote this was cut off; the result covers what it had flushed",
            path.display()
        );
    }
    Ok(Status::Ok)
}

/// Faults of the content do not know the name of their file.
fn name_file(error: ReadError, path: &Path) -> anyhow::Error {
    match error {
        ReadError::Open { .. } => error.into(),
        _ => anyhow::Error::new(error).context(path.display().to_string()),
    }
}
