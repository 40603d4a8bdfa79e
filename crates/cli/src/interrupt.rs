//! Ctrl-C once finishes and prints; twice drops what is outstanding.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use vmnoise_rights::threads;

/// How often the user has asked this process to end.
static ASKED: AtomicUsize = AtomicUsize::new(0);
/// By which signal first; 0: by none yet.
static FIRST: AtomicI32 = AtomicI32::new(0);
/// Whether that is counted.
static IS_CAUGHT: AtomicBool = AtomicBool::new(false);

/// Whether the user has asked to end: the result is wanted now. Never where signals are not caught.
pub fn was_asked() -> bool {
    ASKED.load(Ordering::Relaxed) > 0
}

/// The signal by which the user has asked first.
pub fn asked_by() -> Option<i32> {
    Some(FIRST.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
}

/// Whether this process is a run, which Ctrl-C asks to end. All else it ends.
pub fn is_caught() -> bool {
    IS_CAUGHT.load(Ordering::Relaxed)
}

/// Whether even finishing takes too long for the user: what there is is to be printed.
pub fn was_asked_again() -> bool {
    ASKED.load(Ordering::Relaxed) > 1
}

/// Counts SIGINT, SIGTERM and SIGHUP from here on, in a thread of its own. The third
/// one ends the process as if nobody caught it.
///
/// # Errors
/// If the kernel refuses to install the handlers.
pub fn catch() -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    // nohup(1) has its programs ignore it.
    if !is_ignored(SIGHUP) {
        signals.add_signal(SIGHUP)?;
    }
    threads::spawn("vmnoise-signal", &[], move || {
        for signal in signals.forever() {
            let _ = FIRST.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
            if ASKED.fetch_add(1, Ordering::Relaxed) >= 2 {
                // Nothing is left to do if even this fails.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        }
    })?;
    IS_CAUGHT.store(true, Ordering::Relaxed);
    Ok(())
}

/// Whether whoever started this process wants the signal ignored (`SigIgn` of
/// proc_pid_status(5): a bit for each, from the lowest on).
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
