//! `vmnoise serve`: a program of its own, so that what measures carries no HTTP.

use std::env::current_exe;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use vmnoise_serve_arguments::ServeArguments;

use crate::status::Status;

const PROGRAM: &str = "vmnoise-serve";

/// Becomes that program, which has to lie beside this one.
pub fn run(arguments: &ServeArguments) -> Result<Status> {
    let here = current_exe().context("finding where this program is")?;
    let program = here.with_file_name(PROGRAM);
    let error = Command::new(&program).args(arguments.words()).exec();
    let program = program.display();
    Err(match error.kind() {
        ErrorKind::NotFound => anyhow!(
            "{program} is not there: `cargo build --release -p {PROGRAM}` makes it; copy it beside this one"
        ),
        _ => anyhow!(error).context(format!("starting {program}")),
    })
}
