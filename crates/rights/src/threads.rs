//! Threads that have only the rights that their work needs.

use std::sync::mpsc;
use std::{io, thread};

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use super::table::{AttachedWork, kept};

/// Starts a thread. When this function returns, the thread has given up all capabilities that this
/// work does not keep.
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
    // The thread sends this before anything else.
    Ok(is_done.recv().map_err(io::Error::other)??)
}

/// Leaves this thread only those of `kept` that it already has.
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
