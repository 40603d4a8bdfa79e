//! Reading a recording to its end, and telling how it ended.

use std::path::Path;

use anyhow::Result;
use vmnoise_events::Event;
use vmnoise_recording::{Ending, ReadError, Reader};

use crate::progress::Input;
use crate::say;

/// How reading ended, which is told after the result.
pub type Replayed = Result<Ending, ReadError>;

/// Tells what of a recording is not in the result.
///
/// # Errors
/// The fault at which reading ended.
pub fn tell_ending(ending: Replayed, path: &Path) -> Result<()> {
    let ending = ending.map_err(|error| name_file(error, path))?;
    if !matches!(ending, Ending::Complete) {
        say::say(format_args!(
            "{}: the run that wrote this was cut off; the result covers what it had flushed",
            path.display()
        ));
    }
    Ok(())
}

/// Reads to the end, after which nothing tells how far it is any more.
pub fn read(mut reader: Reader<Input>, on_event: &mut dyn FnMut(&Event)) -> Replayed {
    reader.for_each(on_event)
}

/// Faults of the content do not know the name of their file.
pub fn name_file(error: ReadError, path: &Path) -> anyhow::Error {
    match error {
        ReadError::Open { .. } => error.into(),
        _ => anyhow::Error::new(error).context(path.display().to_string()),
    }
}
