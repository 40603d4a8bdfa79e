//! Bounds on the delay of the slowest host for any dependence between the hosts.

use super::delays::Layer;
use super::grid::edge_ns;

/// Returns the smallest and the largest possible mean delay of the slowest of these hosts, in
/// nanoseconds. Each entry is a kind of host and the number of hosts of this kind.
///
/// The mean delay is smallest if all hosts are late at the same time. It is largest if no two hosts
/// are very late at the same time. Its largest value is at most c + sum of E[max(X - c, 0)], for
/// any c: Lai and Robbins, "Maximally dependent random variables", PNAS 73 (1976).
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
