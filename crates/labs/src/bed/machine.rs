//! Runs QEMU to the end of its machine, or ends it.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Waits until the machine has powered off.
pub(super) fn run(arguments: &[String], backstop: Duration) -> Result<()> {
    let mut qemu = Command::new("qemu-system-x86_64")
        .args(arguments)
        .stdin(Stdio::null())
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
            let error = run(&stopped, Duration::from_millis(300)).unwrap_err();
            assert!(error.to_string().contains("did not end"), "{error:#}");
        }

        #[test]
        fn what_qemu_complains_of_is_told() {
            let error = run(&["-no-such-option".to_owned()], Duration::from_secs(60)).unwrap_err();
            assert!(error.to_string().contains("no-such-option"), "{error:#}");
        }
    }
}
