//! Reasons why two recordings cannot be joined.

use std::fmt;

use super::unpaired::Unpaired;

/// Reason why two recordings cannot be joined, with a remedy.
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
    /// The guest's workload never reported a reading of its clock.
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
    /// The host's recording has no VM of this name.
    #[error(
        "the host's recording has no VM `{wanted}`: name one that it has by its name or process: {}",
        List(vms)
    )]
    NoSuchVm {
        /// Requested VM.
        wanted: String,
        /// VMs in the recording.
        vms: Vec<String>,
    },
    /// No vCPU has the number that a CPU of the guest requires.
    #[error(
        "no vCPU of the host's recording can be a CPU of the guest: {}; it has {}",
        wanted,
        List(vcpus)
    )]
    NoCandidate {
        /// Required numbers.
        wanted: String,
        /// vCPUs in the recording.
        vcpus: Vec<String>,
    },
    /// A vCPU would fit, but the relation of its guest's counter to the host's is unknown.
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
        /// vCPU whose clock placed the guest's recording.
        vcpu: String,
        /// Start and end of the guest's recording, on the host's CLOCK_MONOTONIC in nanoseconds.
        guest_mono_ns: (u64, u64),
        /// Start and end of the host's recording.
        host_mono_ns: (u64, u64),
    },
    /// There are too many CPUs and vCPUs to compare in bounded time.
    #[error(
        "{cpus} CPUs of the guest and {vcpus} vCPUs of its host are too many to be told apart: record \
         the guest with fewer CPUs (-c), or the host with one VM (--vm)"
    )]
    TooMany {
        /// Number of the guest's CPUs.
        cpus: usize,
        /// Number of candidate vCPUs for each CPU.
        vcpus: usize,
    },
    /// The data contradict the pairing, or do not prove it.
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

/// A range of times in seconds.
struct Seconds((u64, u64));

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = |ns: u64| ns as f64 / 1e9;
        write!(f, "{:.3} to {:.3}", s(self.0.0), s(self.0.1))
    }
}
