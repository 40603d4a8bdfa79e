//! The exit status: 0 ok, 1 error, 2 a limit was hit, 3 this machine cannot, 4 unfit, 129 usage.
//! `vmnoise run` ends with the status of its command.

use std::process::ExitCode;

use thiserror::Error;
use vmnoise_rights::RightsError;

use crate::say;

/// Outcome of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
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
    /// Status of the command that `vmnoise run` ran.
    OfCommand(u8),
}

/// A command line that makes no sense.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// Something that the command needs and this machine lacks.
#[derive(Debug, Error)]
#[error("{0}; `vmnoise doctor` shows what this machine can")]
pub struct MachineCannot(pub String);

impl ExitStatus {
    /// Returns this status, or `other` if this one is [`ExitStatus::Ok`]: the outcome of two parts of
    /// one job.
    pub fn or(self, other: ExitStatus) -> ExitStatus {
        if self == ExitStatus::Ok { other } else { self }
    }

    /// Prints an error as one line on stderr, and returns its status.
    pub fn of_error(error: &anyhow::Error) -> ExitStatus {
        if is_broken_pipe(error) {
            return ExitStatus::Ok;
        }
        say::say(format_args!("{error:#}"));
        if error.is::<UsageError>() {
            ExitStatus::Usage
        } else if error.is::<MachineCannot>()
            || matches!(error.downcast_ref(), Some(RightsError::Missing(_)))
        {
            ExitStatus::MachineCannot
        } else {
            ExitStatus::Error
        }
    }
}

/// Returns whether the reader closed the pipe (`| head`), which is no error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> ExitCode {
        ExitCode::from(match status {
            ExitStatus::Ok => 0,
            ExitStatus::Error => 1,
            ExitStatus::Limit => 2,
            ExitStatus::MachineCannot => 3,
            ExitStatus::Usage => 129,
            ExitStatus::Unfit => 4,
            ExitStatus::OfCommand(code) => code,
        })
    }
}
