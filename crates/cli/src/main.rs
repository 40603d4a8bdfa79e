//! The program.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    vmnoise::run(std::env::args_os())
}
