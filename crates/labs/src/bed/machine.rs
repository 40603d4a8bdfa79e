//! Runs QEMU to the end of its machine, or ends it.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// A pipe at this path: one of the machine's ports writes into it, and its monitor
/// reads from it.
pub(super) fn requests(path: &Path) -> Result<File> {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
        .with_context(|| path.display().to_string())?;
    // Open for writing too, it never ends while the machine runs.
    Ok(File::options().read(true).write(true).open(path)?)
}

/// Waits until the machine has powered off. Its monitor, where it has one, reads `stdin`.
pub(super) fn run(arguments: &[String], stdin: Stdio, backstop: Duration) -> Result<()> {
    let mut qemu = Command::new("qemu-system-x86_64")
        .args(arguments)
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting qemu-system-x86_64 (package qemu-system-x86)")?;
    let deadline = Instant::now() + backstop;
    while qemu.try_wait()?.is_none() {
        if Instant::now() > deadline {
            qemu.kill()?;
            qemu.wait()?;
            bail!("the lab did not end within {backstop:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = qemu.wait_with_output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("qemu ended with {}: {}", output.status, said.trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    mod lab {
        use super::super::*;

        #[test]
        fn a_machine_that_does_not_end_is_ended() {
            let stopped = ["-nodefaults", "-display", "none", "-S"].map(str::to_owned);
            let error = run(&stopped, Stdio::null(), Duration::from_millis(300)).unwrap_err();
            assert!(error.to_string().contains("did not end"), "{error:#}");
        }

        #[test]
        fn what_qemu_complains_of_is_told() {
            let error = run(
                &["-no-such-option".to_owned()],
                Stdio::null(),
                Duration::from_secs(60),
            )
            .unwrap_err();
            assert!(error.to_string().contains("no-such-option"), "{error:#}");
        }
    }
}
