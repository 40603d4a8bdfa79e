//! The name by which the program was called. Called as `rtla`, the program prints the lines of rtla
//! that scripts read. Called as `cyclictest`, it takes cyclictest's options and prints its lines.

use std::ffi::OsStr;
use std::path::Path;

const RTLA: &str = "rtla";
const CYCLICTEST: &str = "cyclictest";

/// Returns whether the program was called by the name `rtla`.
pub fn is_rtla() -> bool {
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

/// Returns the name of the program for the head of a histogram.
pub fn title() -> &'static str {
    if is_rtla() { "RTLA" } else { "vmnoise" }
}

/// Returns the command line that prints the help.
pub fn help() -> &'static str {
    if is_cyclictest() {
        "cyclictest --help"
    } else {
        "vmnoise help"
    }
}
