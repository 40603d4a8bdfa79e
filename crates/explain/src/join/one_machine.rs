//! Decides whether two recordings are of one machine, and how far their clocks disagree. The
//! recording of vmnoise's own microVM is made by its host, on the host's counter.

use super::clock_epochs::ClockEpochs;

/// Number of intervals between the instants at which the clocks of both recordings are compared.
const ASKED: u64 = 64;

/// Returns whether both recordings are of one machine and one boot: the relation of TSC to
/// CLOCK_MONOTONIC agrees within the error bounds.
pub(super) fn is_one(host: &ClockEpochs, guest: &ClockEpochs) -> bool {
    let sure_ns = host.bound_ns().saturating_add(guest.bound_ns());
    disagreement_ns(host, guest).is_some_and(|apart_ns| apart_ns <= sure_ns)
}

/// Returns the largest disagreement of the two recordings, in nanoseconds of CLOCK_MONOTONIC.
/// Returns `None` if the recordings share no time, or if one of them has no clock at a compared
/// instant.
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
