//! `vmnoise man` and `vmnoise completions`. Both use the definitions that also parse the command
//! line, so both are always up to date.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use vmnoise_console::say;
use vmnoise_console::status::ExitStatus;

use crate::args::{Arguments, CompletionsArguments, ManArguments};

/// Writes one page for each command.
///
/// # Errors
/// If the folder cannot be made or a page cannot be written.
pub fn man(arguments: &ManArguments) -> Result<ExitStatus> {
    let folder = &arguments.folder;
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    std::fs::create_dir_all(folder)
        .and_then(|()| write_pages(command, folder))
        .with_context(|| format!("writing the manual to {}", say::name_of(folder)))?;
    say::print(format_args!(
        "the manual is in {0}: man -l {0}/vmnoise.1",
        say::name_of(folder)
    ));
    Ok(ExitStatus::Ok)
}

/// Writes the page of a command and of its subcommands.
fn write_pages(command: Command, folder: &Path) -> io::Result<()> {
    for command in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        write_pages(command.clone(), folder)?;
    }
    let man = Man::new(command);
    let mut page = Vec::new();
    man.render(&mut page)?;
    // A choice of many options is longer than a line, so a line break is allowed after each option.
    let page = String::from_utf8_lossy(&page).replace(r"\fR|\fB", r"\fR|\:\fB");
    std::fs::write(folder.join(man.get_filename()), page)
}

/// Prints the completion script for a shell.
///
/// # Errors
/// If stdout cannot be written.
pub fn completions(arguments: &CompletionsArguments) -> Result<ExitStatus> {
    let mut command = Arguments::command();
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "vmnoise", &mut script);
    io::stdout()
        .write_all(&script)
        .context("printing the completions")?;
    Ok(ExitStatus::Ok)
}
