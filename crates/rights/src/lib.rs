//! Which rights this process has, and when each of them goes.
//!
//! Rights belong to threads, and a thread hands its own to those that it makes. So each right goes
//! from the first thread, before others are made, wherever that is possible:
//!
//! 1. Helpers that need all of them are started: the one for shell commands, and the one that switches
//!    idle states on again.
//! 2. [`begin`], before the second thread: nobody gains a right any more by starting a program
//!    (no_new_privs, an empty bounding set, no rights for user 0), and with `--user` the process
//!    is that user. Its capabilities are those that it was started with: programs have to be
//!    loaded yet.
//! 3. Threads that measure are set up, with real-time priorities and control groups. Each gives up
//!    its capabilities when it has what it needs (`crates/workload/src/worker.rs`), and
//!    each of [`threads`] from its start what its work does without.
//! 4. The programs are attached. [`keep`] leaves the first thread what [`table`] says, and all
//!    threads there are the calls of [`calls`]. Threads that are made later have no more than that.
#![forbid(unsafe_code)]

pub mod account;
mod calls;
mod filter;
mod table;
pub mod threads;

use std::fmt;

use rustix::io::Errno;
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities, capabilities_secure_bits,
    clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities_secure_bits, set_no_new_privs, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

use account::Account;
use table::RIGHTS;
pub use table::Work;

/// Why rights are not as they have to be.
#[derive(Debug, thiserror::Error)]
pub enum RightsError {
    /// This process has not what was asked for: a sentence that says which right, and what helps.
    #[error("{0}")]
    Missing(String),
    /// The kernel refuses.
    #[error("{doing}")]
    Refused {
        /// What it refuses.
        doing: String,
        /// What it says.
        source: Errno,
    },
}

type Result<T> = std::result::Result<T, RightsError>;

/// For `map_err`.
fn refused(doing: impl Into<String>) -> impl FnOnce(Errno) -> RightsError {
    let doing = doing.into();
    |source| RightsError::Refused { doing, source }
}

/// The system calls of this process are not limited, for this kernel cannot.
#[derive(Debug)]
pub struct Unlimited(seccompiler::Error);

impl fmt::Display for Unlimited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = &self.0;
        write!(
            f,
            "the system calls of this process are not limited: {error}; a kernel with CONFIG_SECCOMP_FILTER limits them"
        )
    }
}

/// What it takes to become somebody else.
const TO_BECOME: CapabilitySet = CapabilitySet::SETUID
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETPCAP);

/// Gives up all ways to gain rights, and becomes this user. Call it while there is one thread.
///
/// # Errors
/// If this process may not become that user.
pub fn begin(user: Option<&Account>) -> Result<()> {
    set_no_new_privs(true).map_err(refused("giving up new privileges"))?;
    let held = held()?.effective;
    // Without it the bounding set stays, which no_new_privs makes meaningless.
    if held.contains(CapabilitySet::SETPCAP) {
        empty_bounding_set().map_err(refused("emptying the bounding set"))?;
        let of_user_0 = CapabilitiesSecureBits::NO_ROOT
            | CapabilitiesSecureBits::NO_ROOT_LOCKED
            // Who becomes another user has the capabilities that it had.
            | CapabilitiesSecureBits::NO_SETUID_FIXUP
            | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED;
        capabilities_secure_bits()
            .and_then(|bits| set_capabilities_secure_bits(bits | of_user_0))
            .map_err(refused("giving up the rights of user 0"))?;
    }
    match user {
        Some(user) if held.contains(TO_BECOME) => become_user(user),
        Some(user) => {
            let name = &user.name;
            let why = format!(
                "--user {name} needs CAP_SETUID, CAP_SETGID and CAP_SETPCAP: run it as root"
            );
            Err(RightsError::Missing(why))
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
        .map_err(refused(format!("becoming the user {}", user.name)))
}

/// Gives up all but what this work needs. Threads that are there keep no call beyond that either,
/// unless the kernel cannot limit calls: that is for the caller to say.
///
/// # Errors
/// If the kernel refuses.
pub fn keep(works: &[Work]) -> Result<Option<Unlimited>> {
    clear_ambient_capability_set().map_err(refused("giving up ambient capabilities"))?;
    threads::keep(table::kept(works)).map_err(refused("giving up capabilities"))?;
    Ok(calls::limit(works).err().map(Unlimited))
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
            return Err(RightsError::Missing(why));
        }
    }
    Ok(())
}

fn held() -> Result<CapabilitySets> {
    capabilities(None).map_err(refused("reading the capabilities of this process"))
}
