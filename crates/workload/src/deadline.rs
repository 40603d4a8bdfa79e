//! Sets SCHED_DEADLINE for the calling thread, and finds the reason if the kernel refuses.

use std::io;

use rustix::thread::{CapabilitySet, CpuSet, capabilities, sched_getaffinity};
use vmnoise_events::Policy;

use crate::thread_error::{Error, policy_error};

/// The first version of `sched_attr` in include/uapi/linux/sched/types.h. Every kernel with
/// sched_setattr(2) accepts this version.
#[repr(C)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Gives the calling thread a CPU time budget of `runtime_ns` in every period. The period is also
/// the deadline.
///
/// # Errors
/// [`Error::PolicyRefused`] without CAP_SYS_NICE, [`Error::DeadlineNeedsPartition`] on a shared
/// CPU, [`Error::DeadlineOverbooked`] if the budget is too large, otherwise [`Error::Policy`].
pub(crate) fn set(runtime_ns: u64, period_ns: u64) -> Result<(), Error> {
    let attributes = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        policy: libc::SCHED_DEADLINE as u32,
        flags: 0,
        nice: 0,
        priority: 0,
        runtime_ns,
        deadline_ns: period_ns,
        period_ns,
    };
    // SAFETY: `attributes` is a sched_attr of the size that it states, valid during the call.
    // Thread 0 is the calling thread.
    if unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    Err(match (error.raw_os_error(), only_cpu()) {
        // kernel/sched/syscalls.c returns EPERM without CAP_SYS_NICE. It also returns EPERM if the
        // root domain has a CPU outside the thread's affinity.
        (Some(libc::EPERM), Some(cpu)) if may_set_policies() => {
            Error::DeadlineNeedsPartition { cpu }
        }
        (Some(libc::EBUSY), _) => Error::DeadlineOverbooked {
            runtime_ns,
            period_ns,
        },
        _ => policy_error(
            Policy::Deadline {
                runtime_ns,
                period_ns,
            },
            &error,
        ),
    })
}

/// Returns the CPU to which the calling thread is pinned; `None` if it may use several CPUs.
fn only_cpu() -> Option<u32> {
    let affinity = sched_getaffinity(None).ok()?;
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| affinity.is_set(cpu));
    let cpu = u32::try_from(cpus.next()?).ok()?;
    cpus.next().is_none().then_some(cpu)
}

fn may_set_policies() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_NICE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::{pin, set_policy};

    const MS: u64 = 1_000_000;

    fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(work).join().unwrap()
    }

    #[test]
    fn a_budget_longer_than_its_period_is_no_policy() {
        let policy = Policy::Deadline {
            runtime_ns: 2 * MS,
            period_ns: MS,
        };
        let error = on_a_thread(move || set_policy(policy)).unwrap_err();
        assert!(
            matches!(error, Error::Policy { .. } | Error::PolicyRefused { .. }),
            "{error}"
        );
    }

    mod root {
        use super::*;

        #[test]
        fn a_thread_pinned_to_one_of_several_cpus_learns_what_it_needs() {
            let error = on_a_thread(|| {
                pin(&[1]).unwrap();
                set(10 * MS, 100 * MS).unwrap_err()
            });
            assert_eq!(error, Error::DeadlineNeedsPartition { cpu: 1 });
        }
    }
}
