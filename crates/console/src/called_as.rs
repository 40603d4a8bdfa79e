//! The name by which the program was called. A link named `cyclictest` prints cyclictest's lines and
//! takes its options; `as_rtla.rs` has the differences of a link named `rtla`.

use std::ffi::OsStr;
use std::path::Path;

const RTLA: &str = "rtla";
const CYCLICTEST: &str = "cyclictest";

/// Returns whether a link named `rtla` was called.
pub(crate) fn is_rtla() -> bool {
    is(RTLA)
}

/// Returns whether a link named `cyclictest` was called.
pub fn is_cyclictest() -> bool {
    is(CYCLICTEST)
}

fn is(name: &str) -> bool {
    let program = std::env::args_os().next();
    let called = program.as_deref().map(Path::new).and_then(Path::file_name);
    called == Some(OsStr::new(name))
}

/// Returns the command line that prints the help.
pub fn help() -> &'static str {
    if is_cyclictest() {
        "cyclictest --help"
    } else {
        "vmnoise help"
    }
}
