//! `vmnoise serve` and `vmnoise dump`. They run as a separate program, so that the measuring
//! program has no HTTP code.

use std::env::current_exe;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use vmnoise_console::status::ExitStatus;
use vmnoise_serve_arguments::{DumpArguments, ServeArguments};

const PROGRAM: &str = "vmnoise-serve";

/// Replaces this process with `vmnoise-serve`.
pub fn serve(arguments: &ServeArguments) -> Result<ExitStatus> {
    become_it(arguments.words())
}

/// Replaces this process with `vmnoise-serve dump`, which asks a running `vmnoise serve`.
pub fn dump(arguments: &DumpArguments) -> Result<ExitStatus> {
    let words = arguments.words().into_iter();
    become_it([OsString::from("dump")].into_iter().chain(words))
}

/// Replaces this process with `vmnoise-serve`, which must be in the same folder as this program.
fn become_it(words: impl IntoIterator<Item = OsString>) -> Result<ExitStatus> {
    let here = current_exe().context("finding where this program is")?;
    let program = here.with_file_name(PROGRAM);
    let error = Command::new(&program).args(words).exec();
    let program = program.display();
    Err(match error.kind() {
        ErrorKind::NotFound => anyhow!(
            "{program} does not exist: build it with `cargo build --release -p {PROGRAM}`, and copy it there"
        ),
        _ => anyhow!(error).context(format!("starting {program}")),
    })
}
