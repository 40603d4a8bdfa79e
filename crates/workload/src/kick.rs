//! Interrupts a thread that runs a guest or sleeps.

use std::ptr;
use std::sync::Once;

/// Makes the current KVM_RUN or sleep of a thread return with EINTR.
///
/// A signal that arrives just before KVM_RUN or the sleep has no effect. So call this function
/// again until the thread has ended.
pub fn kick(tid: u32) {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(install_handler);
    // SAFETY: tgkill(2) takes plain numbers, and the thread is one of this process. If the thread
    // has already ended, the call fails with ESRCH.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal()) };
}

/// Returns the number of the first real-time signal that libc leaves to programs.
fn signal() -> libc::c_int {
    libc::SIGRTMIN()
}

fn install_handler() {
    extern "C" fn only_interrupt(_: libc::c_int) {}
    // SAFETY: an all-zero sigaction is valid. It has no flags, so system calls are not restarted,
    // and an empty mask. The handler does nothing, which is async-signal-safe.
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
    fn a_kick_interrupts_a_system_call() {
        let tid = Arc::new(AtomicU32::new(0));
        let begin = Instant::now();
        let sleeper = thread::spawn({
            let tid = Arc::clone(&tid);
            move || {
                tid.store(crate::thread::tid(), Ordering::Release);
                // SAFETY: the call waits for no descriptor. It ends after a time or by a signal.
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
