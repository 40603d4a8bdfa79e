//! Threads that need no rights: they wait for signals, or write on what is open.

use std::sync::mpsc;
use std::{io, thread};

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

/// Starts a thread that has given up all capabilities when this returns: it needs none, and those
/// of others may have to go.
///
/// # Errors
/// If the kernel refuses the thread, or to take them.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let (done, is_done) = mpsc::sync_channel(1);
    thread::Builder::new().name(name.into()).spawn(move || {
        let none = CapabilitySet::empty();
        let gone = set_capabilities(
            None,
            CapabilitySets {
                effective: none,
                permitted: none,
                inheritable: none,
            },
        );
        let goes_on = gone.is_ok();
        if done.send(gone).is_ok() && goes_on {
            work();
        }
    })?;
    // It sends before all else.
    Ok(is_done.recv().map_err(io::Error::other)??)
}
