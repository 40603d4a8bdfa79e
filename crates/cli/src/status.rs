//! The exit status of a command line that cannot be run.

use clap::error::ErrorKind;
use vmnoise_console::status::ExitStatus;
use vmnoise_console::{called_as, say};

/// Prints the error of a command line, or the help that it requests, and returns the status.
pub fn of_command_line(error: &anyhow::Error) -> ExitStatus {
    match error.downcast_ref() {
        Some(error) => of_usage(error),
        None => ExitStatus::of_error(error),
    }
}

/// Prints clap's output: help and version unchanged, an error as one line.
fn of_usage(error: &clap::Error) -> ExitStatus {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // If the terminal is gone, the failure cannot be reported either.
        let _ = error.print();
        return if error.use_stderr() {
            ExitStatus::Usage
        } else {
            ExitStatus::Ok
        };
    }
    let text = error.to_string();
    let words = text
        .lines()
        .take_while(|line| !line.is_empty())
        .map(str::trim);
    let line = words.collect::<Vec<_>>().join(" ");
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    say::say(format_args!("{line}; see `{}`", called_as::help()));
    ExitStatus::Usage
}
