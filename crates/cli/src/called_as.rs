//! By which name the program was called. A link named `rtla` says the words of rtla that scripts read, where our
//! own name has others.

use std::ffi::OsStr;
use std::path::Path;

const RTLA: &str = "rtla";

/// Whether a link of that name was called.
pub fn is_rtla() -> bool {
    let program = std::env::args_os().next();
    let name = program.as_deref().map(Path::new).and_then(Path::file_name);
    name == Some(OsStr::new(RTLA))
}

/// The name over a histogram.
pub fn title() -> &'static str {
    if is_rtla() { "RTLA" } else { "vmnoise" }
}
