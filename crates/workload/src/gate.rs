//! The barrier that all measuring threads leave together, and the way to call a
//! vCPU thread back out of the guest.

use std::ptr;
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};

/// What the threads are to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Sign {
    #[default]
    Wait,
    Go,
    Leave,
}

/// One barrier for all threads of one workload.
#[derive(Debug, Default)]
pub struct Gate {
    sign: Mutex<Sign>,
    changed: Condvar,
}

impl Gate {
    /// Blocks until the gate opens; false if the threads are to leave instead.
    pub fn pass(&self) -> bool {
        let waiting = self
            .changed
            .wait_while(self.sign(), |sign| *sign == Sign::Wait);
        *waiting.unwrap_or_else(PoisonError::into_inner) == Sign::Go
    }

    /// Lets all threads pass.
    pub fn open(&self) {
        self.put(Sign::Go);
    }

    /// Tells threads at the gate, and those that look at it later, to end.
    pub fn close(&self) {
        self.put(Sign::Leave);
    }

    /// Whether [`Gate::open`] came first and nothing after it.
    pub fn is_open(&self) -> bool {
        *self.sign() == Sign::Go
    }

    /// Whether [`Gate::close`] was called.
    pub fn is_closed(&self) -> bool {
        *self.sign() == Sign::Leave
    }

    fn put(&self, sign: Sign) {
        *self.sign() = sign;
        self.changed.notify_all();
    }

    fn sign(&self) -> MutexGuard<'_, Sign> {
        self.sign.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the thread's KVM_RUN, or its next sleep, return with EINTR.
///
/// A kick that arrives just before KVM_RUN is lost; kick again until the thread
/// has ended.
pub fn kick(tid: u32) {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(install_handler);
    // SAFETY: tgkill(2) takes plain numbers. The thread is one of ours, and a
    // thread that has ended meanwhile is ESRCH.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal()) };
}

/// The first real-time signal that libc leaves to programs.
fn signal() -> libc::c_int {
    libc::SIGRTMIN()
}

fn install_handler() {
    extern "C" fn only_interrupt(_: libc::c_int) {}
    // SAFETY: an all-zero sigaction is valid: no flags (so that system calls are
    // not restarted) and an empty mask. The handler does nothing, which is
    // async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = only_interrupt as *const () as libc::sighandler_t;
        libc::sigaction(signal(), &raw const action, ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_gate_opens_or_sends_away() {
        for (act, passed) in [(Gate::open as fn(&Gate), true), (Gate::close, false)] {
            let gate = Arc::new(Gate::default());
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    thread::spawn({
                        let gate = Arc::clone(&gate);
                        move || gate.pass()
                    })
                })
                .collect();
            assert!(!gate.is_open() && !gate.is_closed());
            act(&gate);
            assert_eq!((gate.is_open(), gate.is_closed()), (passed, !passed));
            assert!(
                threads
                    .into_iter()
                    .all(|thread| thread.join().unwrap() == passed)
            );
        }
    }

    #[test]
    fn a_kick_interrupts_a_system_call() {
        let tid = Arc::new(AtomicU32::new(0));
        let begin = Instant::now();
        let sleeper = thread::spawn({
            let tid = Arc::clone(&tid);
            move || {
                tid.store(crate::thread::tid(), Ordering::Release);
                // SAFETY: waits for no descriptor; ends by time or by signal.
                unsafe { libc::poll(ptr::null_mut(), 0, 60_000) }
            }
        });
        while !sleeper.is_finished() {
            match tid.load(Ordering::Acquire) {
                0 => {}
                tid => kick(tid),
            }
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(sleeper.join().unwrap(), -1);
        assert!(begin.elapsed() < Duration::from_secs(30));
    }
}
