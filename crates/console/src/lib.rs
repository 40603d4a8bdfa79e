//! Parts that the whole process shares: Ctrl-C, stdout and stderr, which may block, the exit
//! status, and times and names as people read them.

#![forbid(unsafe_code)]

pub mod as_rtla;
pub mod called_as;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod interrupt;
pub mod progress;
pub mod rights;
pub mod say;
pub mod status;
pub mod stderr;
pub mod stdout;
mod unbuffered;
pub mod units;
pub mod write_behind;
