//! By which name the program was called. A link named `rtla` says the words of rtla that scripts read, where our
//! own name has others; one named `cyclictest` is asked in cyclictest's words, too.

use std::ffi::OsStr;
use std::path::Path;

const RTLA: &str = "rtla";
const CYCLICTEST: &str = "cyclictest";

/// Whether a link of that name was called.
pub fn is_rtla() -> bool {
    is(RTLA)
}

/// Whether a link of that name was called.
pub fn is_cyclictest() -> bool {
    is(CYCLICTEST)
}

fn is(name: &str) -> bool {
    let program = std::env::args_os().next();
    let called = program.as_deref().map(Path::new).and_then(Path::file_name);
    called == Some(OsStr::new(name))
}

/// The name over a histogram.
pub fn title() -> &'static str {
    if is_rtla() { "RTLA" } else { "vmnoise" }
}

/// What explains its options.
pub fn help() -> &'static str {
    if is_cyclictest() {
        "cyclictest --help"
    } else {
        "vmnoise help"
    }
}
