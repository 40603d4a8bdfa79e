//! What records the exits of all guests on this host.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Result, ensure};
use vmnoise_labs::{Tied, binary, vmm};

use super::waiting;
use crate::measuring;

/// What it is told, before its file.
const WORDS: [&str; 3] = ["exits", "-q", "-o"];
/// How long it may take to begin, and to write the last of what it has seen.
const BACKSTOP: Duration = Duration::from_secs(60);

/// One that records.
#[derive(Debug)]
pub(super) struct Recorder {
    program: Tied,
}

impl Recorder {
    /// Starts one that writes this file; from now on nothing is missed.
    pub(super) fn start(output: &Path, asked_to_end: &AtomicBool) -> Result<Recorder> {
        let file = output.to_string_lossy();
        let words = [&WORDS[..], &[&*file]].concat();
        let mut program = Tied::start(&binary(), &words, &output.with_extension("said"))?;
        waiting::until("vmnoise exits to begin", BACKSTOP, asked_to_end, || {
            let ended = program.ended()?;
            ensure!(ended.is_none(), "vmnoise exits: {}", program.said().trim());
            Ok(vmm::traces(program.pid()))
        })?;
        Ok(Recorder { program })
    }

    /// The command, with the name that its file has in the end.
    pub(super) fn command() -> String {
        format!("vmnoise {} {}", WORDS.join(" "), measuring::HOST)
    }

    /// Ends it, with all that it has seen written.
    pub(super) fn end(mut self, asked_to_end: &AtomicBool) -> Result<()> {
        self.program.interrupt()?;
        waiting::ended("vmnoise exits", &mut self.program, BACKSTOP, asked_to_end)
    }
}
