//! Rights of this process, and when the process gives up each of them.
//!
//! Rights belong to threads, and a new thread inherits the rights of its creator. So the first
//! thread gives up rights before it creates other threads, if possible. The order is:
//!
//! 1. The process starts helpers that need all rights: the helper for shell commands, and the
//!    helper that switches idle states on again.
//! 2. [`begin`] runs before the second thread exists. From now on, no thread can gain a right by
//!    starting a program (no_new_privs, an empty bounding set, no rights for user 0). With `--user`
//!    the process becomes that user. The process keeps its capabilities for loading programs.
//! 3. The process sets up measuring threads, with real-time priorities and control groups. Each of
//!    them gives up its capabilities when its set-up is complete (`crates/workload/src/worker.rs`).
//!    Each thread of [`threads`] begins with only the capabilities that its work needs.
//! 4. The programs are attached. [`keep`] leaves the capabilities of `table` to the first thread,
//!    and the calls of `calls` to all existing threads. Later threads inherit these rights at most.
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
pub use table::AttachedWork;
use table::RIGHTS;

/// Reason why the rights of this process are not as required.
#[derive(Debug, thiserror::Error)]
pub enum RightsError {
    /// A right is missing. The sentence names the right and the remedy.
    #[error("{0}")]
    Missing(String),
    /// The kernel refused an operation.
    #[error("{doing}")]
    Refused {
        /// The operation that the kernel refused.
        doing: String,
        /// The kernel's error.
        source: Errno,
    },
}

type Result<T> = std::result::Result<T, RightsError>;

/// Returns a function that converts the kernel's error of an operation, for `map_err`. `doing`
/// names the operation.
fn refused(doing: impl Into<String>) -> impl FnOnce(Errno) -> RightsError {
    let doing = doing.into();
    |source| RightsError::Refused { doing, source }
}

/// Warning: the kernel cannot limit the system calls of this process, so they are not limited.
#[derive(Debug)]
pub struct NoFilter(seccompiler::Error);

impl fmt::Display for NoFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = &self.0;
        write!(
            f,
            "the system calls of this process are not limited: {error}; use a kernel with CONFIG_SECCOMP_FILTER"
        )
    }
}

/// Capabilities that a process needs to become another user.
const TO_BECOME: CapabilitySet = CapabilitySet::SETUID
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETPCAP);

/// Makes it impossible to gain rights, and becomes this user. Call it while the process has only
/// one thread.
///
/// # Errors
/// If this process has no right to become that user, or the kernel refuses.
pub fn begin(user: Option<&Account>) -> Result<()> {
    set_no_new_privs(true).map_err(refused("giving up new privileges"))?;
    let held = held()?.effective;
    // Without CAP_SETPCAP the bounding set stays as it is. no_new_privs makes it ineffective
    // anyway.
    if held.contains(CapabilitySet::SETPCAP) {
        empty_bounding_set().map_err(refused("emptying the bounding set"))?;
        let of_user_0 = CapabilitiesSecureBits::NO_ROOT
            | CapabilitiesSecureBits::NO_ROOT_LOCKED
            // A process that becomes another user keeps its capabilities.
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
            // This kernel has no capability with this number or a larger number.
            Err(Errno::INVAL) => break,
            removed => removed?,
        }
    }
    Ok(())
}

/// Becomes this user. The calls affect only the calling thread, which must be the only thread.
fn become_user(user: &Account) -> Result<()> {
    set_thread_groups(&user.groups)
        .and_then(|()| set_thread_res_gid(user.gid, user.gid, user.gid))
        .and_then(|()| set_thread_res_uid(user.uid, user.uid, user.uid))
        .map_err(refused(format!("becoming the user {}", user.name)))
}

/// Gives up all rights that these works do not need. The calling thread loses capabilities, and all
/// existing threads lose system calls. Returns [`NoFilter`] if the kernel cannot limit system
/// calls. The caller reports this.
///
/// # Errors
/// If the kernel refuses.
pub fn keep(works: &[AttachedWork]) -> Result<Option<NoFilter>> {
    clear_ambient_capability_set().map_err(refused("giving up ambient capabilities"))?;
    threads::keep(table::kept(works)).map_err(refused("giving up capabilities"))?;
    Ok(calls::limit(works).err().map(NoFilter))
}

/// Checks that this process has all rights to serve guests. Without one of them, some guests would
/// never be served.
///
/// # Errors
/// If a right is missing. The error names the first missing right.
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
