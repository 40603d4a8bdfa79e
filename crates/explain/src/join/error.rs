//! Reasons why two recordings cannot be joined.

use std::fmt;

use super::unpaired::PairingFailure;

/// Reason why two recordings cannot be joined. The message includes a remedy.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The host's recording came first.
    #[error("the first recording is the host's and the second the guest's: write GUEST HOST")]
    Swapped,
    /// The second recording reports no vCPUs.
    #[error(
        "the second recording has no vCPUs: record the host with `vmnoise exits trace -o` while \
         the guest measures"
    )]
    NoHost,
    /// Both are recordings of hosts.
    #[error(
        "both recordings are of hosts: record the guest with `vmnoise osnoise -o` or `vmnoise \
         timerlat -o` inside it"
    )]
    NoGuest,
    /// The guest's recording contains observed threads instead of a workload with a clock.
    #[error(
        "the first recording observed threads, which read no clock while they wait: record the \
         guest with `vmnoise osnoise -o`, without --pid or --comm"
    )]
    Observed,
    /// One of the recordings has no anchors.
    #[error(
        "the {side}'s recording has no reading of its clocks, because it ended too early: record \
         again"
    )]
    NoAnchors {
        /// `guest` or `host`.
        side: &'static str,
    },
    /// The guest's workload never reported a reading of its clock.
    #[error("the guest's recording has no measured CPU, because it ended too early: record again")]
    NothingObserved,
    /// The host's recording has no vCPU.
    #[error(
        "the host's recording has no vCPU: record it while the guest runs, without --vm or --vcpu \
         of another guest"
    )]
    NoVcpus,
    /// The host's recording has no VM of this name.
    #[error(
        "the host's recording has no VM `{wanted}`: write the name or the process of one that it has: {}",
        List(vms)
    )]
    NoSuchVm {
        /// VM that the user requested.
        wanted: String,
        /// VMs in the recording.
        vms: Vec<String>,
    },
    /// No vCPU has the number that the guest's CPUs require.
    #[error(
        "no vCPU of the host's recording can be a CPU of the guest: {}; the recording has {}: record \
         all vCPUs of the guest",
        wanted,
        List(vcpus)
    )]
    NoCandidate {
        /// Required vCPU numbers, as text.
        wanted: String,
        /// vCPUs in the recording.
        vcpus: Vec<String>,
    },
    /// A vCPU has the required number, but the relation of its guest's counter to the host's is
    /// unknown.
    #[error(
        "the host's recording lacks the TSC offset of {vcpu}: mount debugfs (`mount -t debugfs \
         none /sys/kernel/debug`), and record the host again, as root and with this version of \
         vmnoise"
    )]
    NoClock {
        /// Name of this vCPU.
        vcpu: String,
    },
    /// The two recordings do not overlap in time.
    #[error(
        "the recordings do not overlap: by the TSC offset of {vcpu}, the guest's is at {} s of the \
         host's clock, and the host's at {} s: record both at the same time; if you did, this is \
         another guest, or it was rebooted",
        Seconds(*guest_mono_ns),
        Seconds(*host_mono_ns)
    )]
    NoOverlap {
        /// Name of the vCPU whose clock converted the guest's times.
        vcpu: String,
        /// Start and end of the guest's recording, on the host's CLOCK_MONOTONIC in nanoseconds.
        guest_mono_ns: (u64, u64),
        /// Start and end of the host's recording, on the same clock.
        host_mono_ns: (u64, u64),
    },
    /// The guest and the host have more CPUs and vCPUs than can be compared in bounded time.
    #[error(
        "{cpus} CPUs of the guest and {vcpus} vCPUs of its host are too many to distinguish: record \
         the guest with fewer CPUs (-c), or the host with one VM (--vm)"
    )]
    TooMany {
        /// Number of the guest's CPUs.
        cpus: usize,
        /// Number of candidate vCPUs for each CPU.
        vcpus: usize,
    },
    /// The data contradict the pairing of guest and host, or do not prove it.
    #[error("{0}")]
    Unpaired(Box<PairingFailure>),
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
