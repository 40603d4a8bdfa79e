//! Statistical error of a prediction. A recording is only a sample of the time, or of the hosts.
//!
//! Consecutive gaps are not independent, because one noisy second causes many gaps. So the recorded
//! time is divided into 20 groups, and noise that is shorter than a group stays within one group.
//! Usually, a group is one of 20 blocks of equal duration. If there are 20 hosts or more, each
//! group consists of whole hosts instead. The prediction is repeated without each group. This
//! method is the jackknife: Künsch, "The jackknife and the bootstrap for general stationary
//! observations", Annals of Statistics 17 (1989).
//!
//! The band is computed for the logarithm of the delay, with Student's t distribution. The error of
//! a delay grows with the delay, so the upper end of a band for the delay itself would be too low.

use super::delays::Layer;
use super::measured::{BLOCKS, Measured};
use super::slowest::{Begins, Slowest};

const GROUPS: usize = BLOCKS as usize;
/// Number of hosts from which on each group contains at least one host.
pub(super) const MANY_HOSTS: usize = GROUPS;
/// Value that Student's t distribution with 19 degrees of freedom exceeds with a probability of 5
/// %.
const T_OF_GROUPS: f64 = 1.729;

/// Lower and upper bound of a mean delay, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Band {
    /// Lower bound in nanoseconds. The true mean delay is below it in 5 of 100 recordings.
    pub(super) low_ns: f64,
    /// Upper bound in nanoseconds. The true mean delay is above it in 5 of 100 recordings. The
    /// bound is infinite if only one group has a delay.
    pub(super) high_ns: f64,
}

/// Returns the band around a recorded mean delay; `None` if the recorded time has no groups, or
/// there is no delay.
///
/// `delay_ns` computes the mean delay from the delay of the slowest host. With and without a group,
/// steps begin at the moments that `begins` describes.
pub(super) fn of(
    hosts: &[(&Measured, f64)],
    begins: &Begins,
    delay_ns: impl Fn(&Slowest) -> f64,
    recorded_ns: f64,
) -> Option<Band> {
    let groups = Groups::new(hosts, begins)?;
    if recorded_ns <= 0.0 {
        return None;
    }
    let logs = (0..GROUPS).map(|group| delay_ns(&groups.slowest_without(group)).ln());
    let logs: Vec<f64> = logs.collect();
    let count = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / count;
    let squares: f64 = logs.iter().map(|it| (it - mean).powi(2)).sum();
    // If only one group has a delay, the delay without this group is 0, and its logarithm is
    // infinite.
    let deviation = match mean.is_finite() {
        true => (squares * (count - 1.0) / count).sqrt(),
        false => f64::INFINITY,
    };
    let factor = (T_OF_GROUPS * deviation).exp();
    Some(Band {
        low_ns: recorded_ns / factor,
        high_ns: recorded_ns * factor,
    })
}

/// Recorded time, divided into groups, and the number of hosts of each kind.
enum Groups {
    /// Each entry is a host. The hosts belong to the groups by turns.
    OfHosts(Vec<(Layer, f64)>),
    /// Each entry has the blocks of one kind of host. Each block is a group.
    OfBlocks(Vec<(Vec<Layer>, f64)>),
}

impl Groups {
    fn new(hosts: &[(&Measured, f64)], begins: &Begins) -> Option<Groups> {
        if hosts.len() >= MANY_HOSTS {
            let layers = hosts.iter();
            let layers = layers.map(|(host, count)| (begins.of(&host.delays), *count));
            return Some(Groups::OfHosts(layers.collect()));
        }
        let hosts = hosts.iter().map(|(host, count)| {
            let weights = begins.weights(&host.delays);
            let blocks = host.blocks.iter().map(|it| it.weighted(&weights));
            (!host.blocks.is_empty()).then(|| (blocks.collect(), *count))
        });
        Some(Groups::OfBlocks(hosts.collect::<Option<_>>()?))
    }

    /// Returns the delay of the slowest host as if this group had not been recorded. The number of
    /// hosts stays the same.
    fn slowest_without(&self, group: usize) -> Slowest {
        match self {
            Groups::OfHosts(hosts) => {
                let others = || {
                    let others = hosts.iter().enumerate();
                    others.filter(move |(place, _)| place % GROUPS != group)
                };
                let all: f64 = hosts.iter().map(|(_, count)| count).sum();
                let left: f64 = others().map(|(_, (_, count))| count).sum();
                let others = others();
                Slowest::of_layers(
                    others.map(|(_, (layer, count))| (layer.clone(), count * all / left)),
                )
            }
            Groups::OfBlocks(hosts) => Slowest::of_layers(hosts.iter().map(|(blocks, count)| {
                let mut left = Layer::default();
                let others = blocks.iter().enumerate();
                for (_, block) in others.filter(|(nth, _)| *nth != group) {
                    left.add(block, 1.0);
                }
                (left, *count)
            })),
        }
    }
}
