//! How much a prediction would be another if other blocks of time, or other hosts, had been recorded.
//!
//! Gaps that follow one another are not independent: a noisy second makes many. So a run is cut into 20
//! blocks of equal length, each of many steps, and blocks are drawn anew with replacement: what lasts for less
//! than a block stays together. The length of a block is a compromise: a shorter one would tear apart what
//! belongs together, and fewer than 20 say little about how they differ. Where there are 20 hosts or more, a
//! host is a block. Source: Künsch, "The jackknife and the bootstrap for general stationary observations",
//! Annals of Statistics 17 (1989).
//!
//! No draw holds a gap that is longer than the longest that was recorded: a band says nothing about what
//! has not been seen.

use super::delays::Layer;
use super::measured::Measured;
use super::slowest::Slowest;

/// How often is drawn.
const DRAWS: usize = 200;
/// How much of the draws lies below a band, and how much above.
const OUTSIDE: f64 = 0.05;
/// So many hosts are blocks themselves.
const MANY_HOSTS: usize = 20;

/// What nine of ten draws lie between, nanoseconds, of a step that takes so long by what was recorded.
/// `None` where there are no blocks.
///
/// `step_ns` says how long a step takes where the slowest is this. Draws begin their steps at moments of
/// these weights, whatever they would find themselves; so would the recording, to which each is
/// held.
pub(super) fn of(
    hosts: &[(&Measured, f64)],
    weights: &[f64],
    step_ns: impl Fn(&Slowest) -> f64,
    recorded_ns: f64,
) -> Option<(f64, f64)> {
    let mut random = fastrand::Rng::with_seed(hosts.len() as u64);
    let mut draws: Vec<f64> = if hosts.len() >= MANY_HOSTS {
        let layers = hosts.iter();
        let layers: Vec<(Layer, f64)> = layers
            .map(|(host, count)| (host.delays.weighted(weights), *count))
            .collect();
        let each = (0..DRAWS).map(|_| {
            let drawn = layers.iter().map(|(_, count)| {
                let (layer, _) = &layers[random.usize(..layers.len())];
                (layer.clone(), *count)
            });
            step_ns(&Slowest::of_layers(drawn, weights))
        });
        each.collect()
    } else {
        if hosts.iter().any(|(host, _)| host.blocks.is_empty()) {
            return None;
        }
        let blocks = hosts.iter().map(|(host, _)| {
            let blocks = host.blocks.iter();
            blocks.map(|it| it.weighted(weights)).collect()
        });
        let blocks: Vec<Vec<Layer>> = blocks.collect();
        let each = (0..DRAWS).map(|_| {
            let drawn = blocks.iter().zip(hosts).map(|(blocks, (_, count))| {
                let mut drawn = Layer::default();
                for _ in 0..blocks.len() {
                    drawn.add(&blocks[random.usize(..blocks.len())], 1.0);
                }
                (drawn, *count)
            });
            step_ns(&Slowest::of_layers(drawn, weights))
        });
        each.collect()
    };
    draws.sort_unstable_by(f64::total_cmp);
    let all = hosts.iter();
    let all = all.map(|(host, count)| (host.delays.weighted(weights), *count));
    let held_to_ns = step_ns(&Slowest::of_layers(all, weights));
    let at = |part: f64| {
        let drawn_ns = draws[(part * (draws.len() - 1) as f64).round() as usize];
        recorded_ns * drawn_ns / held_to_ns
    };
    Some((at(OUTSIDE), at(1.0 - OUTSIDE)))
}
