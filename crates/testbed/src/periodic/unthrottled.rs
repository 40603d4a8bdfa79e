//! Lets real-time tasks use all CPU time of this machine.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// File with the kernel's limit for real-time tasks (Documentation/scheduler/sched-rt-group.rst).
const THROTTLING: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// Lifts the kernel's limit for real-time tasks. The limit returns when this value is dropped, or
/// when its process ends in any way. Without the limit, the kernel does not throttle a polling
/// thread of the lowest real-time priority. The fair server (Linux 6.12 and later) still works. It
/// runs an ordinary task that has waited for a second, which causes a gap like any other.
#[derive(Debug)]
pub struct ThrottlingGuard {
    /// Shell that restores the old limit when its stdin is closed.
    restores: Child,
}

impl ThrottlingGuard {
    /// Lifts the limit.
    ///
    /// # Errors
    /// If this process is not root.
    pub fn new() -> Result<ThrottlingGuard> {
        let before = fs::read_to_string(THROTTLING).context(THROTTLING)?;
        let restores = Command::new("sh")
            .args(["-c", "read -r end; echo \"$1\" > \"$2\"", "sh"])
            .args([before.trim(), THROTTLING])
            .stdin(Stdio::piped())
            // Otherwise Ctrl-C would also end this shell.
            .process_group(0)
            .spawn()
            .context("starting a shell")?;
        let unthrottled = ThrottlingGuard { restores };
        fs::write(THROTTLING, "-1").context(THROTTLING)?;
        Ok(unthrottled)
    }
}

impl Drop for ThrottlingGuard {
    fn drop(&mut self) {
        drop(self.restores.stdin.take());
        // An error cannot be reported here.
        let _ = self.restores.wait();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    mod root {
        use super::super::*;

        #[test]
        fn it_is_as_before_once_nobody_has_it() {
            let before = fs::read_to_string(THROTTLING).unwrap();
            let unthrottled = ThrottlingGuard::new().unwrap();
            assert_eq!(fs::read_to_string(THROTTLING).unwrap(), "-1\n");
            drop(unthrottled);
            assert_eq!(fs::read_to_string(THROTTLING).unwrap(), before);
        }
    }
}
