//! Page faults of a polling thread. No probe reports page faults, so a gap without any other event
//! may be a page fault.

/// Number of page faults of the calling thread at the last reading.
#[derive(Debug, Default)]
pub struct PageFaults {
    seen: u64,
}

impl PageFaults {
    /// Returns the number of page faults since the last call.
    pub fn advance(&mut self) -> u64 {
        let now = of_this_thread();
        let before = std::mem::replace(&mut self.seen, now);
        now.saturating_sub(before)
    }
}

fn of_this_thread() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes one rusage to this address, or nothing. All bits of a rusage may be
    // 0.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_minflt.cast_unsigned() + usage.ru_majflt.cast_unsigned()
}

/// Exempts the calling thread, and threads that it creates later, from NUMA balancing. On a machine
/// with several nodes, the kernel unmaps pages to see which thread faults on them. It does not do
/// so for threads that have a memory policy of their own (vma_policy_mof of mm/mempolicy.c). A
/// kernel without NUMA refuses the policy, but does not balance either.
pub fn keep_pages() {
    // SAFETY: no memory is passed, and the policy changes only from where later pages are
    // allocated.
    let _ = unsafe {
        libc::syscall(
            libc::SYS_set_mempolicy,
            libc::MPOL_LOCAL,
            std::ptr::null::<libc::c_ulong>(),
            0,
        )
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_fresh_memory_is_a_fault_and_polling_is_none() {
        let mut faults = PageFaults::default();
        faults.advance();
        assert_eq!(faults.advance(), 0);
        // Each call maps this amount of memory again and touches its first page.
        let mut fresh = Vec::with_capacity(1 << 26);
        std::hint::black_box(&mut fresh).push(1_u8);
        assert!(faults.advance() > 0);
    }
}
