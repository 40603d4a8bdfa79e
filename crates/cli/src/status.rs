//! The exit status contract, in one place: 0 ok, 1 error, 2 a limit was hit,
//! 3 this machine cannot, 4 unfit, 129 usage; `vmnoise run` has that of its command.

use std::process::ExitCode;

use clap::error::ErrorKind;
use thiserror::Error;
use vmnoise_rights::RightsError;

use crate::called_as;
use crate::say;

/// How a run of the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Measured, explained or answered as asked.
    Ok,
    /// Something went wrong; a line on stderr says what.
    Error,
    /// A limit the user set (`--stop`) was hit.
    Limit,
    /// This machine lacks what the command needs; a line says what would help.
    MachineCannot,
    /// The command line makes no sense.
    Usage,
    /// Too much was taken from a command (`vmnoise run --strict`).
    Unfit,
    /// As a command ended that was run.
    OfCommand(u8),
}

/// The command line asks for something that cannot be meant.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// The machine lacks what the command needs.
#[derive(Debug, Error)]
#[error("{0}; `vmnoise doctor` shows what this machine can")]
pub struct MachineCannot(pub String);

impl Status {
    /// This one, unless it is in order: then that of another part of the same work.
    pub fn or(self, other: Status) -> Status {
        if self == Status::Ok { other } else { self }
    }

    /// Prints an error as one line on stderr and says which status it is.
    pub fn of_error(error: &anyhow::Error) -> Status {
        if is_broken_pipe(error) {
            return Status::Ok;
        }
        say::say(format_args!("{error:#}"));
        if error.is::<UsageError>() {
            Status::Usage
        } else if error.is::<MachineCannot>()
            || matches!(error.downcast_ref(), Some(RightsError::Missing(_)))
        {
            Status::MachineCannot
        } else {
            Status::Error
        }
    }
}

/// Says why a command line cannot be carried out.
pub fn of_command_line(error: &anyhow::Error) -> Status {
    match error.downcast_ref() {
        Some(error) => of_usage(error),
        None => Status::of_error(error),
    }
}

/// Prints what clap has to say: help and version as they are, an error as one line.
fn of_usage(error: &clap::Error) -> Status {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // Nothing is left to tell anyone if the terminal itself is gone.
        let _ = error.print();
        return if error.use_stderr() {
            Status::Usage
        } else {
            Status::Ok
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
    Status::Usage
}

/// A reader that has seen enough (`| head`) is no error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> ExitCode {
        ExitCode::from(match status {
            Status::Ok => 0,
            Status::Error => 1,
            Status::Limit => 2,
            Status::MachineCannot => 3,
            Status::Usage => 129,
            Status::Unfit => 4,
            Status::OfCommand(code) => code,
        })
    }
}
