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
use super::slowest::{Begins, Slowest};

/// How much of the draws lies below a band, and how much above.
const OUTSIDE: f64 = 0.05;
/// So many hosts are blocks themselves.
pub(super) const MANY_HOSTS: usize = 20;

/// What nine of ten of so many draws lie between, nanoseconds, of a step that takes so long by what was
/// recorded. `None` where there are no blocks.
///
/// `step_ns` says how long a step takes where the slowest is this. Draws begin their steps at the moments at
/// which the recording does, whatever they would find themselves, and are told as what they are to it.
pub(super) fn of(
    hosts: &[(&Measured, f64)],
    begins: &Begins,
    draws: usize,
    step_ns: impl Fn(&Slowest) -> f64,
    recorded_ns: f64,
) -> Option<(f64, f64)> {
    let whole = hosts.iter();
    let whole: Vec<(Layer, f64)> = whole
        .map(|(host, count)| (begins.of(&host.delays), *count))
        .collect();
    let blocks = blocks(hosts, begins)?;
    let mut random = fastrand::Rng::with_seed(hosts.len() as u64);
    let drawn = (0..draws).map(|_| {
        let drawn = whole.iter().enumerate().map(|(place, (_, count))| {
            let layer = match blocks.get(place) {
                Some(blocks) => drawn(blocks, &mut random),
                None => whole[random.usize(..whole.len())].0.clone(),
            };
            (layer, *count)
        });
        step_ns(&Slowest::of_layers(drawn))
    });
    let mut drawn: Vec<f64> = drawn.collect();
    drawn.sort_unstable_by(f64::total_cmp);
    let held_to_ns = step_ns(&Slowest::of_layers(whole.into_iter()));
    let at = |part: f64| {
        let drawn_ns = drawn[(part * (drawn.len() - 1) as f64).round() as usize];
        recorded_ns * drawn_ns / held_to_ns
    };
    Some((at(OUTSIDE), at(1.0 - OUTSIDE)))
}

/// The blocks of each host, weighted as the host is; none where hosts are blocks.
fn blocks(hosts: &[(&Measured, f64)], begins: &Begins) -> Option<Vec<Vec<Layer>>> {
    if hosts.len() >= MANY_HOSTS {
        return Some(Vec::new());
    }
    let blocks = hosts.iter().map(|(host, _)| {
        let weights = begins.weights(&host.delays);
        let blocks = host.blocks.iter().map(|it| it.weighted(&weights));
        (!host.blocks.is_empty()).then(|| blocks.collect())
    });
    blocks.collect()
}

/// As many blocks as there are, drawn with replacement.
fn drawn(blocks: &[Layer], random: &mut fastrand::Rng) -> Layer {
    let mut drawn = Layer::default();
    for _ in blocks {
        drawn.add(&blocks[random.usize(..blocks.len())], 1.0);
    }
    drawn
}
