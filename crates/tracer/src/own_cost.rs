//! What our own programs cost, by those of their runs that are timed.

use vmnoise_events::OwnCost;

/// The runs that were timed stand for all; `None` while none was.
pub(crate) fn of_timed(bpf_runs: u64, timed_runs: u64, timed_ns: u64) -> Option<OwnCost> {
    let all_ns = u128::from(timed_ns) * u128::from(bpf_runs);
    let bpf_ns = all_ns.checked_div(u128::from(timed_runs))?;
    Some(OwnCost {
        bpf_runs,
        bpf_ns: u64::try_from(bpf_ns).unwrap_or(u64::MAX),
    })
}
