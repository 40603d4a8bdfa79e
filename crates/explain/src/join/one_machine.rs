//! Decides whether two recordings are of one machine, and how far they disagree about its clocks.
//! Gaps of our own microVM are reported by its host, on the host's own counter.

use super::clock_epochs::ClockEpochs;

/// Number of instants at which both are compared.
const ASKED: u64 = 64;

/// Returns whether both are of one machine and one boot: the two clocks that each read together
/// agree within their error bounds.
pub(super) fn is_one(host: &ClockEpochs, guest: &ClockEpochs) -> bool {
    let sure_ns = host.bound_ns().saturating_add(guest.bound_ns());
    disagreement_ns(host, guest).is_some_and(|apart_ns| apart_ns <= sure_ns)
}

/// Returns the largest disagreement in nanoseconds of CLOCK_MONOTONIC. `None` if the recordings
/// share no time, or only one of them knows a clock at some instant.
pub(super) fn disagreement_ns(host: &ClockEpochs, guest: &ClockEpochs) -> Option<u64> {
    let ((host_from, host_to), (guest_from, guest_to)) =
        host.span_mono_ns().zip(guest.span_mono_ns())?;
    let (from_ns, to_ns) = (host_from.max(guest_from), host_to.min(guest_to));
    let length_ns = to_ns.checked_sub(from_ns)?;
    let instants = (0..=ASKED).map(|place| {
        let after_ns = u128::from(length_ns) * u128::from(place) / u128::from(ASKED);
        from_ns + after_ns as u64
    });
    let mut apart_ns = instants.map(|at_ns| {
        let (_, tsc) = guest.tsc(at_ns)?;
        let (_, host_tsc) = host.tsc(at_ns)?;
        Some(host.cycles_ns(tsc.abs_diff(host_tsc)))
    });
    apart_ns.try_fold(0, |most: u64, apart_ns| Some(most.max(apart_ns?)))
}
