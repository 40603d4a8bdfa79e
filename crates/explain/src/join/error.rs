//! Why two recordings are not joined.

use std::fmt;

use super::unpaired::Unpaired;

/// What is wrong with two recordings that were to be joined, and what to do about it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The host's recording came first.
    #[error(
        "the first recording is the host's and the second the guest's: give them as GUEST HOST"
    )]
    Swapped,
    /// The second recording reports no vCPUs.
    #[error(
        "the second recording tells of no vCPUs: record the host with `vmnoise exits trace -o` \
         while the guest measures"
    )]
    NoHost,
    /// Both are recordings of hosts.
    #[error(
        "both recordings are of hosts: record the guest with `vmnoise osnoise -o` or `vmnoise \
         timerlat -o` inside of it"
    )]
    NoGuest,
    /// The guest's recording is of observed threads.
    #[error(
        "the first recording observed threads, which read no clock when they are away: record \
         the guest with `vmnoise osnoise -o`, without --pid or --comm"
    )]
    Observed,
    /// One of the recordings has no anchors.
    #[error(
        "the {side}'s recording has no reading of its clocks: it ended before it began, record anew"
    )]
    NoAnchors {
        /// `guest` or `host`.
        side: &'static str,
    },
    /// The guest's workload never told that it ran.
    #[error(
        "the guest's recording has no CPU that was measured: it ended before it began, record anew"
    )]
    NothingObserved,
    /// The host's recording has no vCPU.
    #[error(
        "the host's recording has no vCPU: record it while the guest runs, and not with --vm or \
         --vcpu of another"
    )]
    NoVcpus,
    /// No VM is called so.
    #[error(
        "the host's recording has no VM `{wanted}`: name one that it has by its name or process: {}",
        List(vms)
    )]
    NoSuchVm {
        /// What was asked for.
        wanted: String,
        /// The VMs that there are.
        vms: Vec<String>,
    },
    /// No vCPU has the number that one of the guest's CPUs should have.
    #[error(
        "no vCPU of the host's recording can be a CPU of the guest: {}; it has {}",
        wanted,
        List(vcpus)
    )]
    NoCandidate {
        /// What was looked for.
        wanted: String,
        /// The vCPUs that there are.
        vcpus: Vec<String>,
    },
    /// A vCPU would fit, and how its guest's counter follows from the host's is not known.
    #[error(
        "the host's recording does not tell the TSC offset of {vcpu}: mount debugfs (`mount -t \
         debugfs none /sys/kernel/debug`) and record the host anew, as root and with this \
         version of vmnoise"
    )]
    NoClock {
        /// The vCPU.
        vcpu: String,
    },
    /// The recordings are of different times.
    #[error(
        "the recordings do not overlap: the guest's lies at {} s of the host's clock, by the TSC \
         offset of {vcpu}, and the host's at {} s: record both at the same time; if you did, \
         this is another guest, or it was booted anew",
        Seconds(*guest_mono_ns),
        Seconds(*host_mono_ns)
    )]
    NoOverlap {
        /// The vCPU by whose clock that is.
        vcpu: String,
        /// Begin and end of the guest's, on the host's CLOCK_MONOTONIC in nanoseconds.
        guest_mono_ns: (u64, u64),
        /// Begin and end of the host's.
        host_mono_ns: (u64, u64),
    },
    /// More vCPUs and CPUs than can be told apart in bounded time.
    #[error(
        "{cpus} CPUs of the guest and {vcpus} vCPUs of its host are too many to be told apart: record \
         the guest with fewer CPUs (-c), or the host with one VM (--vm)"
    )]
    TooMany {
        /// CPUs of the guest.
        cpus: usize,
        /// vCPUs that each of them may be.
        vcpus: usize,
    },
    /// The data were asked, and refuse or do not prove it.
    #[error("{0}")]
    Unpaired(Box<Unpaired>),
}

struct List<'a>(&'a [String]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("none"),
            [names @ .., last] if !names.is_empty() => {
                write!(f, "{} and {last}", names.join(", "))
            }
            [one, ..] => f.write_str(one),
        }
    }
}

/// From and to.
struct Seconds((u64, u64));

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = |ns: u64| ns as f64 / 1e9;
        write!(f, "{:.3} to {:.3}", s(self.0.0), s(self.0.1))
    }
}
