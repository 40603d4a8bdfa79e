//! The name by which the program was called. Called as `cyclictest`, it takes cyclictest's options
//! and prints its lines. `as_rtla.rs` lists what changes if it is called as `rtla`.

use std::ffi::OsStr;
use std::path::Path;

const RTLA: &str = "rtla";
const CYCLICTEST: &str = "cyclictest";

/// Returns whether the program was called by the name `rtla`.
pub(crate) fn is_rtla() -> bool {
    is(RTLA)
}

/// Returns whether the program was called by the name `cyclictest`.
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
