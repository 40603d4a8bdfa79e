//! Keeps libbpf's warnings for error messages, so that they do not appear on the user's terminal.

use std::sync::{Mutex, PoisonError};

use libbpf_rs::{PrintLevel, set_print};

static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Largest number of warnings in an error message. Older warnings are dropped.
const KEPT: usize = 4;

fn keep(_level: PrintLevel, message: String) {
    let mut warnings = WARNINGS.lock().unwrap_or_else(PoisonError::into_inner);
    if warnings.len() == KEPT {
        warnings.remove(0);
    }
    // A verifier log has many lines. The line that names the fault is near its end, before the
    // statistics and the closing line.
    let is_about_it = |line: &&str| !line.starts_with("-- END") && !line.starts_with("processed ");
    let mut lines = message.trim_end().lines().rev();
    let line = lines.find(is_about_it).unwrap_or_default();
    warnings.push(line.trim_start_matches("libbpf: ").to_owned());
}

/// Runs `work` and suppresses libbpf's warnings. Returns the result and the last warnings.
pub(crate) fn quietly<T>(work: impl FnOnce() -> T) -> (T, String) {
    set_print(Some((PrintLevel::Warn, keep)));
    WARNINGS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clear();
    let result = work();
    let warnings = WARNINGS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .join("; ");
    (result, warnings)
}
