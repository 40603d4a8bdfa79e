//! Threads that have only the rights for their work.

use std::sync::mpsc;
use std::{io, thread};

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use super::table::{AttachedWork, kept};

/// Starts a thread that has only the capabilities for these works. The thread has given up all
/// others when this function returns.
///
/// # Errors
/// If the kernel refuses the thread, or refuses to drop the capabilities.
pub fn spawn(
    name: &str,
    works: &[AttachedWork],
    work: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let kept = kept(works);
    let (done, is_done) = mpsc::sync_channel(1);
    thread::Builder::new().name(name.into()).spawn(move || {
        let gone = keep(kept);
        let goes_on = gone.is_ok();
        if done.send(gone).is_ok() && goes_on {
            work();
        }
    })?;
    // The thread sends this result before it begins its work.
    Ok(is_done.recv().map_err(io::Error::other)??)
}

/// Removes all capabilities from this thread that are not in `kept`.
pub(super) fn keep(kept: CapabilitySet) -> rustix::io::Result<()> {
    let kept = capabilities(None)?.effective.intersection(kept);
    set_capabilities(
        None,
        CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        },
    )
}
