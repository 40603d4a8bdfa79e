//! A test that this machine cannot run says so.

use std::io::Write;

/// Says that the test that asks has not run, and why, on stderr: `skipped: NAME: REASON`.
/// `cargo xtask test` counts it as skipped, and in CI fails unless a fact of the machine
/// excuses it (`xtask/src/machine.rs`). The caller returns.
pub fn skipped(reason: &str) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a test");
    // libtest would keep what `eprintln` says of a test that passes to itself.
    let _ = writeln!(std::io::stderr(), "skipped: {name}: {reason}");
}
