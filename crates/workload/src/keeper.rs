//! Helper process that restores settings of the machine after this process has ended in any way.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Script of the helper. It reads until the other end of its pipe is closed. The kernel also closes
/// this end if this process is killed. The helper then writes 0 to each file. It ignores the
/// signals with which a terminal ends programs.
const SCRIPT: &str = "trap '' HUP INT TERM QUIT; cat >/dev/null; \
                      for file; do echo 0 >\"$file\" 2>/dev/null; done";

/// Child process that writes 0 to files. It does so when the keeper is dropped, or when this
/// process ends in any way.
#[derive(Debug)]
pub(crate) struct Keeper {
    child: Child,
    /// This process's end of the pipe. No other process holds this end.
    until: Option<ChildStdin>,
}

impl Keeper {
    /// Starts the child process for these files, which must contain 0 now.
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
            // Ctrl-C and a hang-up reach all processes in the process group of the terminal.
            .process_group(0)
            .spawn()?;
        let until = child.stdin.take();
        Ok(Keeper { child, until })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.until.take());
        // Wait, so that the settings are restored before this process continues.
        let _ = self.child.wait();
    }
}
