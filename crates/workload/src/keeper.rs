//! A helper process that puts settings of the machine back when this one is gone, however it ended.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Reads until the other end of its pipe is closed, which the kernel does for a process that is
/// killed, too; then writes 0 to each file. Signals that end a terminal's programs do not end it.
const SCRIPT: &str = "trap '' HUP INT TERM QUIT; cat >/dev/null; \
                      for file; do echo 0 >\"$file\" 2>/dev/null; done";

/// A child process that switches these files back when the keeper is dropped, or when this
/// process ends in any way.
#[derive(Debug)]
pub(crate) struct Keeper {
    child: Child,
    /// Its end of the pipe; no other process has it.
    until: Option<ChildStdin>,
}

impl Keeper {
    /// Begins to watch over files that hold 0 now.
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
            // Ctrl-C and a hang-up go to the group of the terminal.
            .process_group(0)
            .spawn()?;
        let until = child.stdin.take();
        Ok(Keeper { child, until })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.until.take());
        // Whoever comes next finds the machine as it was.
        let _ = self.child.wait();
    }
}
