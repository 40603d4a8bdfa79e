//! `vmnoise explain`: a recording goes through the same path as a live run.

use anyhow::{Context, Result};
use vmnoise_explain::Explainer;
use vmnoise_recording::{Ending, Reader};

use crate::args::ExplainArguments;
use crate::output;
use crate::status::Status;

/// Prints what the recording holds. What can be read is printed even where the
/// file ends too early; then the fault follows on stderr.
pub fn run(arguments: &ExplainArguments) -> Result<Status> {
    let path = &arguments.recording;
    let mut reader = Reader::open(path).with_context(|| path.display().to_string())?;
    let facts = reader.facts().clone();
    let mut explainer = Explainer::new(&facts);
    let ending = reader.for_each(&mut |event| explainer.feed(event, &mut |_| ()));
    output::print(&facts, &explainer.finish(), arguments.format)?;
    let ending = ending.with_context(|| path.display().to_string())?;
    if !matches!(ending, Ending::Complete) {
        eprintln!(
            "vmnoise: {}: the run that wrote this was cut off; the result covers what it had flushed",
            path.display()
        );
    }
    Ok(Status::Ok)
}
