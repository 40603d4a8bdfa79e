//! Signals that end a run: SIGINT (Ctrl-C), SIGTERM and SIGHUP. The first signal ends the run, and
//! its result is printed. The second signal skips outstanding work. The third signal ends the
//! process.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use vmnoise_rights::threads;

/// Number of signals that asked this process to end.
static ASKED: AtomicUsize = AtomicUsize::new(0);
/// Number of the first such signal; 0 if none came yet.
static FIRST: AtomicI32 = AtomicI32::new(0);
/// Whether [`catch`] has installed its handlers.
static IS_CAUGHT: AtomicBool = AtomicBool::new(false);

/// Returns whether the user asked the run to end. Always false if signals are not caught.
pub fn was_asked() -> bool {
    ASKED.load(Ordering::Relaxed) > 0
}

/// Returns the first signal that asked the run to end.
pub fn asked_by() -> Option<i32> {
    Some(FIRST.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
}

/// Returns whether the process catches Ctrl-C. If not, Ctrl-C ends the process at once.
pub fn is_caught() -> bool {
    IS_CAUGHT.load(Ordering::Relaxed)
}

/// Returns whether the user asked twice. The run then prints its result so far, without further
/// work.
pub fn was_asked_again() -> bool {
    ASKED.load(Ordering::Relaxed) > 1
}

/// Starts a thread that counts SIGINT, SIGTERM and SIGHUP. The third signal ends the process, as an
/// uncaught signal does.
///
/// # Errors
/// If the kernel refuses to install the handlers.
pub fn catch() -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    // A program that nohup(1) started must keep ignoring SIGHUP.
    if !is_ignored(SIGHUP) {
        signals.add_signal(SIGHUP)?;
    }
    threads::spawn("vmnoise-signal", &[], move || {
        for signal in signals.forever() {
            let _ = FIRST.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
            if ASKED.fetch_add(1, Ordering::Relaxed) >= 2 {
                // If this fails, nothing else can be done.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        }
    })?;
    IS_CAUGHT.store(true, Ordering::Relaxed);
    Ok(())
}

/// Returns whether this process ignores the signal. Reads `SigIgn` of proc_pid_status(5), whose
/// lowest bit is signal 1.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
