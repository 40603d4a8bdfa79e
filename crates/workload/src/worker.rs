//! One pinned thread that measures. The thread has all rights of the process during its set-up, and
//! gives them up before it measures. After the end, the thread's error is kept.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::{Builder, JoinHandle};

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use vmnoise_events::Policy;

use crate::cgroup::Cgroup;
use crate::lease::Lease;
use crate::start_barrier::StartBarrier;
use crate::{Error, kick, thread, tsc};

/// Capabilities that a thread keeps while it measures. Before Linux 5.19, a thread cannot read
/// steal clocks without CAP_BPF.
const KEPT: CapabilitySet = CapabilitySet::BPF;

/// Start of all threads of a workload, and the limit of their run.
#[derive(Debug, Default)]
pub struct RunState {
    pub barrier: StartBarrier,
    pub lease: Lease,
    started_mono_ns: AtomicU64,
}

impl RunState {
    /// Starts all threads.
    pub fn start(&self) {
        self.started_mono_ns
            .store(tsc::mono_ns(), Ordering::Release);
        self.barrier.open();
    }

    /// Returns the time at which the threads were started, CLOCK_MONOTONIC in nanoseconds.
    pub fn started_mono_ns(&self) -> u64 {
        self.started_mono_ns.load(Ordering::Acquire)
    }
}

/// CPU, policy and control group of a thread.
#[derive(Debug, Clone)]
pub struct Placement {
    pub cpu: u32,
    /// Scheduling policy of the thread; `None` to inherit the policy of its creator.
    pub policy: Option<Policy>,
    /// Control group of the thread; `None` for the control group of its creator.
    pub cgroup: Option<Cgroup>,
}

/// A thread that has finished its set-up, and the memory that it shares.
#[derive(Debug)]
pub struct SetUpThread<S> {
    pub cpu: u32,
    pub tid: u32,
    pub shared: Arc<S>,
    handle: Option<JoinHandle<()>>,
    failure: Arc<OnceLock<Error>>,
}

impl<S: Send + Sync + 'static> SetUpThread<S> {
    /// Starts a thread with this name. Returns when the thread waits at the barrier of `run`.
    ///
    /// `set_up` runs on the new thread, on its CPU. It returns the shared memory and the function
    /// that measures. This function is called when the barrier opens.
    pub fn spawn<W>(
        name: String,
        placement: Placement,
        run: Arc<RunState>,
        set_up: impl FnOnce() -> Result<(Arc<S>, W), Error> + Send + 'static,
    ) -> Result<SetUpThread<S>, Error>
    where
        W: FnOnce(&RunState) -> Result<(), Error>,
    {
        let cpu = placement.cpu;
        let (send, ready) = mpsc::sync_channel(1);
        let failure = Arc::new(OnceLock::new());
        let live = move || {
            // Pinning may require the control group, and the policy may require the pinning.
            if let Some(cgroup) = &placement.cgroup {
                cgroup.admit_thread()?;
            }
            thread::pin(&[cpu])?;
            let (shared, work) = set_up()?;
            if let Some(policy) = placement.policy {
                thread::set_policy(policy)?;
            }
            give_up_rights()?;
            // If the receiver no longer exists, no thread waits for this message.
            let _ = send.send((thread::tid(), shared));
            match run.barrier.wait() {
                true => work(&run),
                false => Ok(()),
            }
        };
        let handle = Builder::new().name(name).spawn({
            let failure = Arc::clone(&failure);
            move || {
                // A panic must end the whole run like any other error, with the results so far and
                // the name of this thread. Without `catch_unwind`, the panic would end only this
                // thread, and `failure` would be empty until `join`. No other thread reads data
                // that the panic left inconsistent.
                let end = catch_unwind(AssertUnwindSafe(live));
                if let Err(error) = end.unwrap_or_else(|_| Err(gone(cpu))) {
                    failure.get_or_init(|| error);
                }
            }
        });
        let handle = handle.map_err(|error| thread::Error::Spawn {
            cpu,
            errno: error.raw_os_error().unwrap_or(0),
        })?;
        match ready.recv() {
            Ok((tid, shared)) => Ok(SetUpThread {
                cpu,
                tid,
                shared,
                handle: Some(handle),
                failure,
            }),
            // The thread ended in its set-up. After the join, its error is in `failure`.
            Err(_) => {
                let _ = handle.join();
                Err(failure.get().cloned().unwrap_or_else(|| gone(cpu)))
            }
        }
    }

    /// Interrupts the guest or the sleep of the thread once, so that the thread checks the barrier.
    pub fn kick(&self) {
        kick::kick(self.tid);
    }

    /// Returns whether the thread has not ended yet.
    pub fn running(&self) -> bool {
        self.handle
            .as_ref()
            .is_some_and(|handle| !handle.is_finished())
    }

    /// Returns the error with which the thread ended early; `None` if there was none.
    pub fn failure(&self) -> Option<Error> {
        self.failure.get().cloned()
    }

    /// Waits until the thread has ended.
    pub fn join(&mut self) -> Result<(), Error> {
        if let Some(handle) = self.handle.take() {
            // If the thread panicked, `failure` already has an error.
            let _ = handle.join();
        }
        self.failure().map_or(Ok(()), Err)
    }
}

fn gone(cpu: u32) -> Error {
    thread::Error::Gone(cpu).into()
}

fn give_up_rights() -> Result<(), thread::Error> {
    let kept = capabilities(None).map(|held| held.effective.intersection(KEPT));
    let kept = kept.and_then(|kept| {
        let sets = CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        };
        set_capabilities(None, sets)
    });
    kept.map_err(|errno| thread::Error::Rights {
        errno: errno.raw_os_error(),
    })
}

/// Checks that the calling thread is still on the CPU to which it was pinned. The kernel moves a
/// pinned thread only if its CPU goes offline or leaves the cpuset. The check needs no system call,
/// because getcpu is in the vDSO.
pub fn stays_on(cpu: u32, thread: &'static str) -> Result<(), Error> {
    let now_on = u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(u32::MAX);
    match now_on == cpu {
        true => Ok(()),
        false => Err(Error::Moved {
            cpu,
            thread,
            now_on,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_CPU: Error = Error::Thread(thread::Error::NoSuchCpu { cpu: 3 });

    /// Returns a thread on CPU 0 that starts at once.
    fn spawn<W: FnOnce(&RunState) -> Result<(), Error>>(
        name: &str,
        set_up: impl FnOnce() -> Result<(Arc<Option<String>>, W), Error> + Send + 'static,
    ) -> Result<SetUpThread<Option<String>>, Error> {
        let placement = Placement {
            cpu: 0,
            policy: None,
            cgroup: None,
        };
        let run = Arc::new(RunState::default());
        run.start();
        SetUpThread::spawn(name.to_owned(), placement, run, set_up)
    }

    #[test]
    fn a_thread_says_what_it_set_up_and_how_it_ended() {
        let before_ns = tsc::mono_ns();
        let mut worker = spawn("measures", move || {
            let name = std::thread::current().name().map(str::to_owned);
            let work = move |run: &RunState| {
                assert!(run.started_mono_ns() >= before_ns);
                Err(NO_CPU)
            };
            Ok((Arc::new(name), work))
        })
        .unwrap();
        assert_eq!(worker.shared.as_deref(), Some("measures"));
        assert_eq!(worker.join(), Err(NO_CPU));
        assert!(!worker.running());
    }

    #[test]
    fn a_death_in_the_set_up_is_its_reason() {
        type Never = fn(&RunState) -> Result<(), Error>;
        let refused = spawn::<Never>("refused", || Err(NO_CPU));
        assert_eq!(refused.unwrap_err(), NO_CPU);
        let silent = spawn::<Never>("silent", || {
            std::panic::resume_unwind(Box::new("no message on stderr"))
        });
        assert_eq!(silent.unwrap_err(), gone(0));
    }

    #[test]
    fn a_panic_at_work_is_a_failure() {
        let mut worker = spawn("panics", || {
            let work = |_: &RunState| std::panic::resume_unwind(Box::new("no message on stderr"));
            Ok((Arc::new(None), work))
        })
        .unwrap();
        assert_eq!(worker.join(), Err(gone(0)));
        assert_eq!(worker.failure(), Some(gone(0)));
    }
}
