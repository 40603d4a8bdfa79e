//! What holds of the slowest host whatever joins the hosts: the least it can be, and the most.

use super::delays::Layer;
use super::grid::edge_ns;

/// The least and the greatest mean delay of the slowest of these hosts, nanoseconds; each kind with how
/// many there are.
///
/// The least is that of hosts that are late at the same time. The greatest is that of hosts of which
/// no two are very late at the same time: Lai and Robbins, "Maximally dependent random variables", PNAS 73
/// (1976): no more than c + sum of E[max(X - c, 0)], for any c.
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
