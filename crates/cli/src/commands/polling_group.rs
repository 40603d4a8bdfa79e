//! The control group of the measuring threads (`-C`).

use anyhow::Result;
use vmnoise_console::say;
use vmnoise_console::status::{MachineCannot, UsageError};
use vmnoise_workload::cgroup::{self, Cgroup};

use crate::args::SharedArguments;

/// Returns the control group into which the measuring threads must move. If the group takes only
/// whole processes, moves this process and returns `None`.
///
/// # Errors
/// If there is no such group, or if the kernel refuses the move.
pub fn enter(arguments: &SharedArguments) -> Result<Option<Cgroup>> {
    let Some(name) = arguments.cgroup.as_ref().and_then(Option::as_ref) else {
        return Ok(None);
    };
    let refused = |error: cgroup::Error| match error {
        cgroup::Error::NoSuchGroup(_) => anyhow::Error::new(UsageError(error.to_string())),
        _ => MachineCannot(error.to_string()).into(),
    };
    let cgroup = Cgroup::find(name).map_err(refused)?;
    if cgroup.is_threaded() {
        return Ok(Some(cgroup));
    }
    cgroup.admit_process().map_err(refused)?;
    say::say(format_args!(
        "the control group {name} is not threaded: all threads of vmnoise run in it, not only the measuring threads"
    ));
    Ok(None)
}
