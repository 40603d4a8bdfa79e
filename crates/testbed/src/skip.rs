//! Reports a test that this machine cannot run.

use std::io::Write;

/// Reports on stderr that the calling test has not run, and why: `skipped: NAME: REASON`. After
/// this call, the test must return. `cargo xtask test` counts the test as skipped. In CI it fails
/// instead, unless `xtask/src/machine.rs` finds a reason on this machine.
pub fn skipped(reason: &str) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a test");
    // libtest captures what `eprintln` prints in a test that passes.
    let _ = writeln!(std::io::stderr(), "skipped: {name}: {reason}");
}
