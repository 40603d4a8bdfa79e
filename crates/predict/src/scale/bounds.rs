//! Bounds for the slowest host, however the hosts depend on one another.

use super::delays::Layer;
use super::grid::edge_ns;

/// Returns the least and the greatest mean delay of the slowest of these hosts, in nanoseconds.
/// Each kind of host comes with its number.
///
/// The delay is least if all hosts are late at the same time. It is greatest if no two hosts are
/// very late at the same time. It is then no more than c + sum of E[max(X - c, 0)], for any c: Lai
/// and Robbins, "Maximally dependent random variables", PNAS 73 (1976).
pub(super) fn of_any_dependence(hosts: &[(Layer, f64)]) -> (f64, f64) {
    let means = hosts.iter().map(|(layer, _)| layer.mean_ns());
    let least_ns = means.fold(0.0, f64::max);
    let cells = hosts.iter().map(|(layer, _)| layer.moments_ns.len()).max();
    let mut beyond_ns = vec![0.0; cells.unwrap_or(0) + 1];
    for (layer, count) in hosts {
        let all_ns: f64 = layer.moments_ns.iter().sum();
        let (mut ns, mut weighted_ns) = (0.0, 0.0);
        for cell in (0..layer.moments_ns.len()).rev() {
            ns += layer.moments_ns[cell];
            weighted_ns += layer.weighted_ns[cell];
            beyond_ns[cell] += count * (weighted_ns - edge_ns(cell) as f64 * ns) / all_ns;
        }
    }
    let tries = beyond_ns.iter().enumerate();
    let tries = tries.map(|(cell, beyond_ns)| edge_ns(cell) as f64 + beyond_ns);
    (least_ns, tries.fold(f64::INFINITY, f64::min))
}
