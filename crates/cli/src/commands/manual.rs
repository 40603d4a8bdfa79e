//! `vmnoise man` and `vmnoise completions`: written from the definitions that also parse, so
//! that neither can be out of date.

use std::io::{self, Write};

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::args::{Arguments, CompletionsArguments, ManArguments};
use crate::say;
use crate::status::Status;

/// Writes one page for each command.
///
/// # Errors
/// If the folder cannot be made or a page cannot be written.
pub fn man(arguments: &ManArguments) -> Result<Status> {
    let folder = &arguments.folder;
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Arguments::command(), folder))
        .with_context(|| format!("writing the manual to {}", say::name_of(folder)))?;
    say::print(format_args!(
        "the manual is in {0}: man -l {0}/vmnoise.1",
        say::name_of(folder)
    ));
    Ok(Status::Ok)
}

/// Prints a script for a shell.
///
/// # Errors
/// If nobody reads it.
pub fn completions(arguments: &CompletionsArguments) -> Result<Status> {
    let mut command = Arguments::command();
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "vmnoise", &mut script);
    io::stdout()
        .write_all(&script)
        .context("printing the completions")?;
    Ok(Status::Ok)
}
