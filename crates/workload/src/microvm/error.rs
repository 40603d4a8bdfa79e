//! Errors of the microVM, with their remedies.

use std::io;

use crate::thread;

/// Reason why this machine does not run the microVM, or why a running microVM ended early.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no /dev/kvm.
    #[error(
        "/dev/kvm does not exist: load kvm_intel or kvm_amd, enable VT-x or AMD-V in the firmware, or nested virtualization in the hypervisor below"
    )]
    NoKvm,
    /// /dev/kvm exists, but this user may not open it.
    #[error("not allowed to open /dev/kvm: run as root or join the group that owns it (often kvm)")]
    NotAllowed,
    /// Another hypervisor uses the virtualization of the CPU (EBUSY).
    #[error(
        "KVM is busy: another hypervisor (VirtualBox, VMware, …) holds the CPU's virtualization; stop its machines and try again"
    )]
    Busy,
    /// KVM does not have the API version that every kernel since 2.6.22 has.
    #[error("KVM speaks API version {0} instead of 12: use the kvm modules of the running kernel")]
    ApiVersion(i32),
    /// More CPUs are requested than the layout of guest memory allows.
    #[error("{0} CPUs are more than one microVM measures: name at most {1}")]
    TooManyCpus(usize, usize),
    /// The exit counts have no slot for a measured CPU.
    #[error(
        "the exit counts ({len} bytes) hold no slot for CPU {cpu}: size their map by the possible CPUs"
    )]
    ExitCountsTooSmall {
        /// The CPU without a slot.
        cpu: u32,
        /// Number of bytes that the exit counts have.
        len: usize,
    },
    /// Guest memory could not be allocated.
    #[error(
        "no memory for the guest ({len} bytes): {}; free memory or measure fewer CPUs",
        io::Error::from_raw_os_error(*errno)
    )]
    Memory {
        /// Number of bytes that were requested.
        len: usize,
        /// The kernel's error number.
        errno: i32,
    },
    /// KVM refused a call that every KVM on x86 should accept.
    #[error(
        "{call} failed: {}; see the kernel log (dmesg) for KVM's reason",
        io::Error::from_raw_os_error(*errno)
    )]
    Kvm {
        /// Name of the ioctl.
        call: &'static str,
        /// The kernel's error number.
        errno: i32,
    },
    /// The guest made an exit that it never makes in order.
    #[error(
        "the vCPU on CPU {cpu} left the guest with {reason}: what was measured until then stands; see the kernel log (dmesg) for KVM's reason"
    )]
    Exit {
        /// The CPU.
        cpu: u32,
        /// The exit, by its name and number in linux/kvm.h.
        reason: String,
    },
    /// A guest did not finish its exercise, but also made no unexpected exit.
    #[error(
        "the guest on CPU {cpu} did not come to the end of its exercise: this KVM does not return from that exit, or the CPU had no time for it; try another exercise or CPU"
    )]
    Stuck {
        /// The CPU.
        cpu: u32,
    },
    /// KVM's interrupt controller has no timer for a TSC deadline.
    #[error(
        "this KVM gives its guests no timer with a TSC deadline (KVM_CAP_TSC_DEADLINE_TIMER): it needs a TSC that never stops; boot with a stable TSC"
    )]
    NoDeadlineTimer,
    /// The guest armed its timer and halted, but no timer interrupt came.
    #[error(
        "no timer interrupt came to the guest on CPU {cpu} for {waited_s} s: this KVM does not deliver the timer of its interrupt controller to our guest, or the CPU had no time for it; try another CPU"
    )]
    NoTimer {
        /// The CPU.
        cpu: u32,
        /// Time for which the host waited, in seconds.
        waited_s: u64,
    },
    /// The thread of a vCPU could not be started, could not be pinned, could not get its policy, or
    /// died.
    #[error(transparent)]
    Thread(#[from] thread::Error),
}

impl Error {
    /// Returns a function for `map_err` that adds the name of the failed call.
    pub(super) fn kvm(call: &'static str) -> impl FnOnce(kvm_ioctls::Error) -> Error {
        move |error| Error::Kvm {
            call,
            errno: error.errno(),
        }
    }

    /// Returns the error for a failed attempt to open /dev/kvm.
    pub(super) fn open(error: kvm_ioctls::Error) -> Error {
        match error.errno() {
            libc::ENOENT | libc::ENODEV | libc::ENXIO => Error::NoKvm,
            libc::EACCES | libc::EPERM => Error::NotAllowed,
            errno => Error::Kvm {
                call: "open(/dev/kvm)",
                errno,
            },
        }
    }

    /// Returns the error for a failed KVM_CREATE_VM. In this call KVM takes control of the CPUs.
    pub(super) fn create_vm(error: kvm_ioctls::Error) -> Error {
        match error.errno() {
            libc::EBUSY => Error::Busy,
            errno => Error::Kvm {
                call: "KVM_CREATE_VM",
                errno,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_lack_kvm_has_its_own_remedy() {
        let open = |errno| Error::open(kvm_ioctls::Error::new(errno)).to_string();
        assert!(open(libc::ENOENT).contains("nested virtualization"));
        assert!(open(libc::EACCES).contains("group"));
        assert!(open(libc::EMFILE).contains("open(/dev/kvm)"));
        let busy = Error::create_vm(kvm_ioctls::Error::new(libc::EBUSY)).to_string();
        assert!(busy.contains("another hypervisor"), "{busy}");
    }
}
