//! Reads the time-stamp counter (TSC), alone or together with CLOCK_MONOTONIC.

use std::arch::x86_64::{_mm_lfence, _rdtsc};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use vmnoise_events::Anchor;

/// Number of attempts to read an anchor. The first reading after a cold start is slow, but the
/// narrowest of several readings is not.
const ANCHOR_TRIES: usize = 8;

/// Returns the TSC of this CPU, in cycles. Earlier and later instructions may be executed in any
/// order with the reading.
pub fn now() -> u64 {
    // SAFETY: every x86-64 CPU has RDTSC. Linux leaves CR4.TSD clear, unless this process set it
    // with PR_SET_TSC.
    unsafe { _rdtsc() }
}

/// Returns the TSC in cycles. The CPU reads it only after all earlier instructions have completed.
pub(crate) fn now_ordered() -> u64 {
    // SAFETY: LFENCE belongs to SSE2, which every x86-64 CPU has.
    unsafe { _mm_lfence() };
    now()
}

/// Returns the TSC and CLOCK_MONOTONIC at one instant. The result is the narrowest of several
/// readings.
pub fn anchor() -> Anchor {
    let mut best = one_anchor();
    for _ in 1..ANCHOR_TRIES {
        let next = one_anchor();
        if width(&next) < width(&best) {
            best = next;
        }
    }
    best
}

/// Returns the frequency of the TSC in Hz, measured against CLOCK_MONOTONIC. The function sleeps
/// for `dur`. The relative error is the width of the two anchors divided by `dur`: parts per
/// million for 100 ms.
pub fn calibrate_hz(dur: Duration) -> u64 {
    let begin = anchor();
    std::thread::sleep(dur);
    let end = anchor();
    let cycles = u128::from(middle(&end).saturating_sub(middle(&begin)));
    let ns = u128::from(end.mono_ns.saturating_sub(begin.mono_ns).max(1));
    u64::try_from(cycles * 1_000_000_000 / ns).unwrap_or(u64::MAX)
}

/// Returns the median duration of one `rdtsc` in a bare loop, in cycles. If a hypervisor emulates
/// the counter, a gap is noticed later by this duration.
pub fn rdtsc_cycles() -> u64 {
    let mut deltas = [0u64; 1001];
    let mut last = now();
    for delta in &mut deltas {
        let next = now();
        *delta = next.saturating_sub(last);
        last = next;
    }
    deltas.sort_unstable();
    deltas[deltas.len() / 2]
}

/// Returns CLOCK_MONOTONIC in nanoseconds. The call is a system call only if the vDSO has no clock.
pub fn mono_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // The clock starts at boot, so neither part is negative.
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

fn one_anchor() -> Anchor {
    let before_tsc = now_ordered();
    let mono_ns = mono_ns();
    let after_tsc = now_ordered();
    Anchor {
        before_tsc,
        mono_ns,
        after_tsc,
    }
}

fn width(anchor: &Anchor) -> u64 {
    anchor.after_tsc.wrapping_sub(anchor.before_tsc)
}

/// Returns the reading of the TSC in the middle of an anchor, which stands for the instant of
/// `mono_ns`.
pub(crate) fn middle(anchor: &Anchor) -> u64 {
    anchor.before_tsc + width(anchor) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anchor_brackets_its_reading() {
        let first = anchor();
        let second = anchor();
        assert!(first.before_tsc < first.after_tsc);
        assert!(first.after_tsc < second.before_tsc);
        assert!(first.mono_ns < second.mono_ns);
    }

    #[test]
    fn two_calibrations_agree() {
        let first = calibrate_hz(Duration::from_millis(50));
        let second = calibrate_hz(Duration::from_millis(50));
        assert!(first > 100_000_000, "{first} Hz");
        assert!(
            first.abs_diff(second) < first / 1000,
            "{first} Hz, then {second} Hz"
        );
    }

    #[test]
    fn rdtsc_takes_time() {
        assert!(rdtsc_cycles() > 0);
    }
}
