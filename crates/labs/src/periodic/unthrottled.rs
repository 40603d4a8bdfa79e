//! A machine on which real-time tasks may have all of the time.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// Documentation/scheduler/sched-rt-group.rst.
const THROTTLING: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// As it was before, once this is dropped, or the program that has it has ended in whichever way. Until then a polling
/// thread of the lowest real-time priority is not stopped for having polled. The fair server (Linux 6.12 and later)
/// stays: an ordinary task that has waited for a second beside it has its turn, which is a gap like any other.
#[derive(Debug)]
pub struct Unthrottled {
    /// Writes what was before, once nobody holds the other end of its input any more.
    restores: Child,
}

impl Unthrottled {
    /// From now on.
    ///
    /// # Errors
    /// If this is not root.
    pub fn new() -> Result<Unthrottled> {
        let before = fs::read_to_string(THROTTLING).context(THROTTLING)?;
        let restores = Command::new("sh")
            .args(["-c", "read -r end; echo \"$1\" > \"$2\"", "sh"])
            .args([before.trim(), THROTTLING])
            .stdin(Stdio::piped())
            // Ctrl-C ends all of the terminal's group.
            .process_group(0)
            .spawn()
            .context("starting a shell")?;
        let unthrottled = Unthrottled { restores };
        fs::write(THROTTLING, "-1").context(THROTTLING)?;
        Ok(unthrottled)
    }
}

impl Drop for Unthrottled {
    fn drop(&mut self) {
        drop(self.restores.stdin.take());
        // Nobody is left to tell.
        let _ = self.restores.wait();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

    mod root {
        use super::super::*;

        #[test]
        fn it_is_as_before_once_nobody_has_it() {
            let before = fs::read_to_string(THROTTLING).unwrap();
            let unthrottled = Unthrottled::new().unwrap();
            assert_eq!(fs::read_to_string(THROTTLING).unwrap(), "-1\n");
            drop(unthrottled);
            assert_eq!(fs::read_to_string(THROTTLING).unwrap(), before);
        }
    }
}
