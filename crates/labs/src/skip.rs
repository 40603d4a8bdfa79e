//! Reports a test that this machine cannot run.

use std::io::Write;

/// Reports on stderr that the calling test has not run, and why: `skipped: NAME: REASON`.
/// `cargo xtask test` counts it as skipped, and in CI fails unless a fact of the machine excuses it
/// (`xtask/src/machine.rs`). The caller returns.
pub fn skipped(reason: &str) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a test");
    // libtest captures what `eprintln` prints in a test that passes.
    let _ = writeln!(std::io::stderr(), "skipped: {name}: {reason}");
}
