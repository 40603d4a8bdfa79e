//! A helper process that restores settings of the machine when this process is gone, however it
//! ended.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Reads until the other end of its pipe is closed, which the kernel also does for a killed
/// process. Then it writes 0 to each file. Signals that end a terminal's programs do not end it.
const SCRIPT: &str = "trap '' HUP INT TERM QUIT; cat >/dev/null; \
                      for file; do echo 0 >\"$file\" 2>/dev/null; done";

/// A child process that switches these files back when the keeper is dropped, or when this process
/// ends in any way.
#[derive(Debug)]
pub(crate) struct Keeper {
    child: Child,
    /// Our end of the pipe; no other process has it.
    until: Option<ChildStdin>,
}

impl Keeper {
    /// Begins to watch over files that now hold 0.
    ///
    /// # Errors
    /// If no process can be started.
    pub(crate) fn of(files: &[PathBuf]) -> io::Result<Keeper> {
        let mut child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "vmnoise-keeper"])
            .args(files)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C and a hang-up reach the whole process group of the terminal.
            .process_group(0)
            .spawn()?;
        let until = child.stdin.take();
        Ok(Keeper { child, until })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.until.take());
        // Waits, so that the machine is restored before anything else runs.
        let _ = self.child.wait();
    }
}
