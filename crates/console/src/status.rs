//! The exit status: 0 ok, 1 error, 2 a limit was hit, 3 this machine cannot, 4 unfit, 129 usage.
//! `vmnoise run` ends with the status of its command.

use std::process::ExitCode;

use thiserror::Error;
use vmnoise_rights::RightsError;

use crate::say;

/// Outcome of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// The command did its work.
    Ok,
    /// An error occurred. A line on stderr describes it.
    Error,
    /// A limit or condition that the user set was hit, such as `--stop`.
    Limit,
    /// This machine lacks something that the command needs, or the data are too few for a verdict.
    /// A line says what helps.
    MachineCannot,
    /// The command line is invalid.
    Usage,
    /// Too much time was taken from the command of `vmnoise run --strict`.
    Unfit,
    /// Status of the command that `vmnoise run` ran.
    OfCommand(u8),
}

/// Error of an invalid command line.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// Error: the command needs something that this machine lacks.
#[derive(Debug, Error)]
#[error("{0}; `vmnoise doctor` shows what this machine can")]
pub struct MachineCannot(pub String);

impl ExitStatus {
    /// Returns `other` if this status is [`ExitStatus::Ok`], and otherwise this status. Combines
    /// the outcomes of two parts of one job.
    pub fn or(self, other: ExitStatus) -> ExitStatus {
        if self == ExitStatus::Ok { other } else { self }
    }

    /// Prints an error as one line on stderr, and returns its status. Prints nothing for a closed
    /// pipe, whose status is [`ExitStatus::Ok`].
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
