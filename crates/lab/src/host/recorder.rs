//! Recorder of the exits of all guests on this host: `vmnoise exits`.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Result, ensure};
use vmnoise_testbed::{TiedProcess, binary, vmm};

use super::waiting;
use crate::measuring;

/// Arguments of the recorder, without the path of its file.
const WORDS: [&str; 3] = ["exits", "-q", "-o"];
/// Time limit for the start of the recorder, and for writing its last data.
const BACKSTOP: Duration = Duration::from_secs(60);

/// A recorder that is running.
#[derive(Debug)]
pub(super) struct Recorder {
    program: TiedProcess,
}

impl Recorder {
    /// Starts a recorder that writes the file `output`. Returns when the recorder misses no more
    /// exits.
    pub(super) fn start(output: &Path, asked_to_end: &AtomicBool) -> Result<Recorder> {
        let file = output.to_string_lossy();
        let words = [&WORDS[..], &[&*file]].concat();
        let mut program = TiedProcess::start(&binary(), &words, &output.with_extension("said"))?;
        waiting::until("vmnoise exits to begin", BACKSTOP, asked_to_end, || {
            let ended = program.ended()?;
            ensure!(ended.is_none(), "vmnoise exits: {}", program.said().trim());
            Ok(vmm::traces(program.pid()))
        })?;
        Ok(Recorder { program })
    }

    /// Returns the command of the recorder, with the final name of its file.
    pub(super) fn command() -> String {
        format!("vmnoise {} {}", WORDS.join(" "), measuring::HOST)
    }

    /// Ends the recorder, and waits until it has written all data.
    pub(super) fn end(mut self, asked_to_end: &AtomicBool) -> Result<()> {
        self.program.interrupt()?;
        waiting::ended("vmnoise exits", &mut self.program, BACKSTOP, asked_to_end)
    }
}
