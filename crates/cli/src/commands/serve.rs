//! `vmnoise serve` and `vmnoise dump`: a program of its own, so that what measures carries no HTTP.

use std::env::current_exe;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use vmnoise_serve_arguments::{DumpArguments, ServeArguments};

use crate::status::Status;

const PROGRAM: &str = "vmnoise-serve";

/// Becomes that program.
pub fn serve(arguments: &ServeArguments) -> Result<Status> {
    become_it(arguments.words())
}

/// Becomes that program, which asks another that serves.
pub fn dump(arguments: &DumpArguments) -> Result<Status> {
    let words = arguments.words().into_iter();
    become_it([OsString::from("dump")].into_iter().chain(words))
}

/// It has to lie beside this one.
fn become_it(words: impl IntoIterator<Item = OsString>) -> Result<Status> {
    let here = current_exe().context("finding where this program is")?;
    let program = here.with_file_name(PROGRAM);
    let error = Command::new(&program).args(words).exec();
    let program = program.display();
    Err(match error.kind() {
        ErrorKind::NotFound => anyhow!(
            "{program} is not there: `cargo build --release -p {PROGRAM}` makes it; copy it beside this one"
        ),
        _ => anyhow!(error).context(format!("starting {program}")),
    })
}
