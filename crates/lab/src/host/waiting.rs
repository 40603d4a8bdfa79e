//! Waits for programs and guests.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use vmnoise_testbed::TiedProcess;

/// Time between two checks.
const LOOK: Duration = Duration::from_millis(50);

/// Waits until `is_so` returns true. `what` describes the expected event in error messages.
///
/// # Errors
/// If the time limit passes, or the user ends the run.
pub(super) fn until(
    what: &str,
    within: Duration,
    asked_to_end: &AtomicBool,
    mut is_so: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let begun = Instant::now();
    while !is_so()? {
        ensure!(!asked_to_end.load(Ordering::Relaxed), "asked to end");
        let took = begun.elapsed();
        ensure!(
            took < within,
            "waited {} s in vain for {what}",
            took.as_secs()
        );
        sleep(LOOK);
    }
    Ok(())
}

/// Waits until a program has ended successfully.
///
/// # Errors
/// If the program fails or exceeds the time limit, or if the user ends the run.
pub(super) fn ended(
    what: &str,
    program: &mut TiedProcess,
    within: Duration,
    asked_to_end: &AtomicBool,
) -> Result<()> {
    let mut status = None;
    until(what, within, asked_to_end, || {
        status = program.ended()?;
        Ok(status.is_some())
    })?;
    let is_well = status.is_some_and(|status| status.success());
    ensure!(is_well, "{what}: {}", program.said().trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::*;

    fn wait(asked_to_end: bool) -> String {
        let asked_to_end = AtomicBool::new(asked_to_end);
        let never = || Ok(false);
        let error = until("a guest", Duration::ZERO, &asked_to_end, never).unwrap_err();
        error.to_string()
    }

    #[test]
    fn what_does_not_come_is_told_and_who_asks_is_heard_first() {
        assert_eq!(wait(false), "waited 0 s in vain for a guest");
        assert_eq!(wait(true), "asked to end");
    }
}
