//! Which rights this process has, and when each of them goes.
//!
//! Rights belong to threads, and a thread hands its own to those that it makes. So each right goes
//! from the first thread, before others are made, wherever that is possible:
//!
//! 1. Helpers that need all of them are started: `run/reaction/shell.rs`, and the one that switches idle
//!    states on again.
//! 2. [`begin`], before the second thread: nobody gains a right any more by starting a program
//!    (no_new_privs, an empty bounding set, no rights for user 0), and with `--user` the process
//!    is that user. Its capabilities are those that it was started with: programs have to be
//!    loaded yet.
//! 3. Threads that measure are set up, with real-time priorities and control groups. Each gives up
//!    its capabilities when it has what it needs (`crates/workload/src/worker.rs`), and
//!    each of [`threads`] from its start what its work does without.
//! 4. The programs are attached. [`keep`] leaves the first thread what [`table`] says, and all
//!    threads there are the calls of [`calls`]. Threads that are made later have no more than that.

pub mod account;
mod calls;
mod filter;
mod table;
pub mod threads;

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities, capabilities_secure_bits,
    clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities_secure_bits, set_no_new_privs, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

use crate::say;
use crate::status::MachineCannot;
use account::Account;
use table::RIGHTS;
pub use table::Work;

/// What it takes to become somebody else.
const TO_BECOME: CapabilitySet = CapabilitySet::SETUID
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETPCAP);

/// Gives up all ways to gain rights, and becomes this user. Call it while there is one thread.
///
/// # Errors
/// If this process may not become that user.
pub fn begin(user: Option<&Account>) -> Result<()> {
    set_no_new_privs(true).context("giving up new privileges")?;
    let held = held()?.effective;
    // Without it the bounding set stays, which no_new_privs makes meaningless.
    if held.contains(CapabilitySet::SETPCAP) {
        empty_bounding_set().context("emptying the bounding set")?;
        let of_user_0 = CapabilitiesSecureBits::NO_ROOT
            | CapabilitiesSecureBits::NO_ROOT_LOCKED
            // Who becomes another user has the capabilities that it had.
            | CapabilitiesSecureBits::NO_SETUID_FIXUP
            | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED;
        capabilities_secure_bits()
            .and_then(|bits| set_capabilities_secure_bits(bits | of_user_0))
            .context("giving up the rights of user 0")?;
    }
    match user {
        Some(user) if held.contains(TO_BECOME) => become_user(user),
        Some(user) => {
            let name = &user.name;
            let why = format!(
                "--user {name} needs CAP_SETUID, CAP_SETGID and CAP_SETPCAP: run it as root"
            );
            Err(MachineCannot(why).into())
        }
        None => Ok(()),
    }
}

fn empty_bounding_set() -> rustix::io::Result<()> {
    for bit in 0..u64::BITS {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit)) {
            // This kernel knows no more.
            Err(Errno::INVAL) => break,
            removed => removed?,
        }
    }
    Ok(())
}

/// The calls are of the one thread there is.
fn become_user(user: &Account) -> Result<()> {
    set_thread_groups(&user.groups)
        .and_then(|()| set_thread_res_gid(user.gid, user.gid, user.gid))
        .and_then(|()| set_thread_res_uid(user.uid, user.uid, user.uid))
        .with_context(|| format!("becoming the user {}", user.name))
}

/// Gives up all but what this work needs. Threads that are there keep no call beyond that either.
///
/// # Errors
/// If the kernel refuses.
pub fn keep(works: &[Work]) -> Result<()> {
    clear_ambient_capability_set().context("giving up ambient capabilities")?;
    threads::keep(table::kept(works)).context("giving up capabilities")?;
    if let Err(error) = calls::limit(works) {
        say::say(format_args!(
            "the system calls of this process are not limited: {error}; a kernel with CONFIG_SECCOMP_FILTER limits them"
        ));
    }
    Ok(())
}

/// Refuses to serve guests without what that takes: half of it would show as guests that are
/// never served.
///
/// # Errors
/// Names the first that is missing.
pub fn check_feed() -> Result<()> {
    let held = held()?.effective;
    let needed = RIGHTS.iter().filter(|right| right.is_needed_by_feed());
    for right in needed {
        if !held.contains(right.capability) {
            let (name, purpose) = (right.name, right.purpose);
            let why =
                format!("--feed needs {name} to {purpose}: run it as root, or see docs/feed.md");
            return Err(MachineCannot(why).into());
        }
    }
    Ok(())
}

fn held() -> Result<CapabilitySets> {
    capabilities(None).context("reading the capabilities of this process")
}
