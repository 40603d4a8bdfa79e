//! Saves a trace on its own thread: a disk that hangs delays neither the run nor Ctrl-C.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use vmnoise_console::{as_rtla, interrupt, say, stdout};
use vmnoise_export::{Readers, WholeFile};
use vmnoise_views::RecentTrace;

/// Interval between checks whether the file is complete.
const LOOK: Duration = Duration::from_millis(5);
/// Time from Ctrl-C until the trace is given up. Without Ctrl-C, time until a message is printed.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest saving time of a healthy disk. A slower disk must not delay the result.
const SLOW: Duration = Duration::from_secs(1);

/// Error of a trace that was given up because its disk hangs. Another access to the file could
/// hang, too.
#[derive(Debug, thiserror::Error)]
#[error("the trace is not in {0}: the disk had not written it 5 s after Ctrl-C")]
pub struct GivenUp(String);

/// Trace that is being saved. The size of [`RecentTrace`] limits the text that waits for the disk.
#[derive(Debug)]
pub struct Saving {
    /// Thread with the rights of its creator, since the folder may belong to another user.
    thread: Option<JoinHandle<io::Result<()>>>,
    path: PathBuf,
    begun: Instant,
    /// Time at which Ctrl-C was first seen.
    asked: Option<Instant>,
}

impl Saving {
    /// Begins to save a trace. `ours` is the default name, as in [`crate::files::claim_trace`].
    ///
    /// # Errors
    /// If the kernel refuses a thread. If vmnoise was called as rtla: also if stdout cannot be
    /// written.
    pub fn begin(trace: &RecentTrace, path: &Path, ours: &str) -> Result<Saving> {
        if as_rtla::names_trace_first() {
            let line = format!("  Saving trace to {}\n", say::name_of(path));
            stdout::write_all(line.as_bytes()).context("printing the name of the trace file")?;
        }
        let text = trace.text();
        let is_ours = path == Path::new(ours);
        let its_path = path.to_owned();
        let work = move || save(&text, &its_path, is_ours);
        let thread = thread::Builder::new().name("vmnoise-write".into());
        Ok(Saving {
            thread: Some(thread.spawn(work).context("starting to save the trace")?),
            path: path.to_owned(),
            begun: Instant::now(),
            asked: None,
        })
    }

    /// Returns whether the file is complete, without waiting.
    ///
    /// # Errors
    /// If the file cannot be written, or [`GivenUp`]; the message names the file.
    pub fn is_done(&mut self) -> Result<bool> {
        if let Some(thread) = self.thread.take_if(|thread| thread.is_finished()) {
            let saved = thread
                .join()
                .map_err(|_| anyhow!("the thread that saves it has died"))?;
            saved.with_context(|| format!("saving the trace to {}", say::name_of(&self.path)))?;
        }
        if self.thread.is_some() && interrupt::was_asked() {
            let asked = *self.asked.get_or_insert_with(Instant::now);
            if asked.elapsed() > PATIENCE {
                return Err(GivenUp(say::name_of(&self.path)).into());
            }
        }
        Ok(self.thread.is_none())
    }

    /// Returns whether the disk takes longer than a healthy one.
    pub fn is_slow(&self) -> bool {
        self.begun.elapsed() > SLOW
    }

    /// Waits until the file is complete; prints a message if this takes long.
    ///
    /// # Errors
    /// As [`is_done`](Self::is_done).
    pub fn wait(mut self) -> Result<()> {
        let mut is_said = false;
        while !self.is_done()? {
            if !is_said && self.begun.elapsed() > PATIENCE {
                is_said = true;
                say::say(format_args!(
                    "waiting for the disk to write the trace {}; Ctrl-C gives up",
                    say::name_of(&self.path)
                ));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }
}

fn save(text: &str, path: &Path, is_ours: bool) -> io::Result<()> {
    let mut file = match is_ours {
        true => WholeFile::create_here(path, Readers::Owner),
        false => WholeFile::create(path, Readers::Owner),
    }?;
    file.write_all(text.as_bytes())?;
    file.finish()
}
