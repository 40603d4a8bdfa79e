//! CPU affinity and scheduling policy of the calling thread.

use std::io;

use rustix::process::{Pid, setpriority_process};
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};
use vmnoise_events::Policy;

use crate::deadline;
pub use crate::thread_error::Error;
use crate::thread_error::policy_error;

/// Allows the calling thread to run only on `cpus`.
///
/// # Errors
/// [`Error::NoSuchCpu`] and [`Error::Pin`]. In both cases the thread's affinity stays as before.
pub fn pin(cpus: &[u32]) -> Result<(), Error> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        let index = cpu as usize;
        if index >= CpuSet::MAX_CPU {
            return Err(Error::NoSuchCpu { cpu });
        }
        set.set(index);
    }
    let first_cpu = cpus.first().copied().unwrap_or(0);
    sched_setaffinity(None, &set).map_err(|errno| Error::Pin {
        first_cpu,
        errno: errno.raw_os_error(),
    })
}

/// Checks that a thread is still pinned to this CPU. The kernel changes the affinity of a thread
/// when its CPU goes offline or leaves the cpuset (cpuset(7)). A thread that has ended counts as
/// pinned.
///
/// # Errors
/// [`Error::Unpinned`] if the thread may run on another CPU.
pub fn still_pinned(tid: u32, cpu: u32) -> Result<(), Error> {
    let Ok(allowed) = sched_getaffinity(Pid::from_raw(tid.cast_signed())) else {
        return Ok(());
    };
    if allowed.count() == 1 && allowed.is_set(cpu as usize) {
        Ok(())
    } else {
        Err(Error::Unpinned { cpu })
    }
}

/// Sets the scheduling policy of the calling thread (sched_setscheduler(2)). [`Policy::Other`] also
/// sets its nice value (setpriority(2)). [`Policy::Deadline`] uses sched_setattr(2).
///
/// # Errors
/// [`Error::PolicyRefused`] if a right is missing, [`Error::DeadlineNeedsPartition`] or
/// [`Error::DeadlineOverbooked`] for a deadline, otherwise [`Error::Policy`].
pub fn set_policy(policy: Policy) -> Result<(), Error> {
    let (number, priority) = match policy {
        Policy::Deadline {
            runtime_ns,
            period_ns,
        } => return deadline::set(runtime_ns, period_ns),
        Policy::Other(_) => (libc::SCHED_OTHER, 0),
        Policy::Fifo(priority) => (libc::SCHED_FIFO, priority),
        Policy::RoundRobin(priority) => (libc::SCHED_RR, priority),
    };
    set_scheduler(0, number, priority).map_err(|error| policy_error(policy, &error))?;
    if let Policy::Other(nice) = policy {
        // The kernel would clamp a nice value outside of the range. This function returns an error
        // instead.
        if !(-20..=19).contains(&nice) {
            return Err(Error::Policy {
                policy,
                errno: libc::EINVAL,
            });
        }
        // On Linux, the "process" 0 means only the calling thread.
        setpriority_process(None, nice).map_err(|errno| policy_error(policy, &errno.into()))?;
    }
    Ok(())
}

/// Sets SCHED_FIFO with this priority for the thread with this kernel id (sched_setscheduler(2)).
///
/// # Errors
/// The kernel's error, if a right is missing or the thread has ended.
pub fn set_fifo(tid: u32, priority: i32) -> io::Result<()> {
    set_scheduler(tid.cast_signed(), libc::SCHED_FIFO, priority)
}

/// Sets the policy of the thread with this kernel id; 0 means the calling thread.
fn set_scheduler(tid: i32, policy: i32, priority: i32) -> io::Result<()> {
    let param = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: `param` is a valid sched_param during the call.
    if unsafe { libc::sched_setscheduler(tid, policy, &raw const param) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Runs `work` on a new thread that is pinned to this CPU, and waits until it has ended.
pub(crate) fn on<T: Send, E: From<Error> + Send>(
    cpu: u32,
    work: impl FnOnce() -> Result<T, E> + Send,
) -> Result<T, E> {
    std::thread::scope(|scope| {
        let pinned = scope.spawn(|| {
            pin(&[cpu])?;
            work()
        });
        pinned.join().unwrap_or(Err(Error::Gone(cpu).into()))
    })
}

/// Returns the kernel's thread id of the calling thread.
pub fn tid() -> u32 {
    gettid().as_raw_nonzero().get().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(work).join().unwrap()
    }

    #[test]
    fn a_pinned_thread_runs_there() {
        let cpu = on_a_thread(|| {
            let allowed = rustix::thread::sched_getaffinity(None).unwrap();
            let cpu = (0..CpuSet::MAX_CPU)
                .rfind(|&cpu| allowed.is_set(cpu))
                .unwrap();
            pin(&[cpu as u32]).unwrap();
            (cpu, rustix::thread::sched_getcpu())
        });
        assert_eq!(cpu.0, cpu.1);
    }

    #[test]
    fn a_thread_whose_affinity_changed_is_not_pinned_any_more() {
        on_a_thread(|| {
            let all = sched_getaffinity(None).unwrap();
            pin(&[0]).unwrap();
            assert_eq!(still_pinned(tid(), 0), Ok(()));
            assert_eq!(still_pinned(tid(), 1), Err(Error::Unpinned { cpu: 1 }));
            sched_setaffinity(None, &all).unwrap();
            let pinned = still_pinned(tid(), 0);
            assert_eq!(pinned.is_ok(), all.count() == 1);
        });
        let gone = on_a_thread(tid);
        assert_eq!(still_pinned(gone, 0), Ok(()));
    }

    #[test]
    fn a_missing_cpu_is_named() {
        let error = on_a_thread(|| pin(&[1023])).unwrap_err();
        assert!(error.to_string().contains("CPU 1023"), "{error}");
        assert_eq!(pin(&[1 << 20]), Err(Error::NoSuchCpu { cpu: 1 << 20 }));
    }

    #[test]
    fn an_absurd_policy_is_refused() {
        let fifo = on_a_thread(|| set_policy(Policy::Fifo(100))).unwrap_err();
        assert_eq!(
            fifo,
            Error::Policy {
                policy: Policy::Fifo(100),
                errno: libc::EINVAL
            }
        );
        let nice = on_a_thread(|| set_policy(Policy::Other(40))).unwrap_err();
        assert_eq!(
            nice,
            Error::Policy {
                policy: Policy::Other(40),
                errno: libc::EINVAL
            }
        );
    }

    #[test]
    fn a_thread_may_become_nicer() {
        on_a_thread(|| set_policy(Policy::Other(5))).unwrap();
    }
}
