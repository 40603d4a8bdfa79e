//! Who disturbs which rank, and when.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;

use crate::Disturber;

/// The name by which results have to blame whoever disturbs.
pub const CULPRIT: &str = "lab-disturb";

/// How long somebody takes a CPU, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bursts {
    /// How long at a time.
    pub burst: Duration,
    /// From one begin to the next.
    pub every: Duration,
}

/// Shorter than a step.
pub const BRIEF: Bursts = Bursts {
    burst: Duration::from_micros(300),
    every: Duration::from_millis(2),
};
/// Longer than a step.
pub const LONG: Bursts = Bursts {
    burst: Duration::from_millis(2),
    every: Duration::from_millis(10),
};

/// Which ranks are disturbed. Rank R is on CPU R.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scene {
    /// As it is printed.
    pub name: &'static str,
    /// The CPUs on which somebody burns bursts, each with how many halves of a period after those of the others.
    disturbed: &'static [(u32, u32)],
}

/// All, the control first.
pub const SCENES: [Scene; 4] = [
    Scene {
        name: "quiet",
        disturbed: &[],
    },
    Scene {
        name: "rank 1 disturbed",
        disturbed: &[(1, 0)],
    },
    Scene {
        name: "both, in phase",
        disturbed: &[(0, 0), (1, 0)],
    },
    Scene {
        name: "both, out of phase",
        disturbed: &[(0, 0), (1, 1)],
    },
];

impl Scene {
    /// Whether nobody is.
    pub fn is_quiet(&self) -> bool {
        self.disturbed.is_empty()
    }

    /// How many bursts there are in a period, one after the other.
    pub(super) fn turns(&self) -> u32 {
        let phases: BTreeSet<u32> = self.disturbed.iter().map(|(_, halves)| *halves).collect();
        phases.len() as u32
    }

    /// How long a step takes, of what its work needs, if all wait while one is disturbed, and nothing else is there.
    pub(super) fn slowdown(&self, bursts: Bursts) -> f64 {
        let taken = bursts.burst.as_secs_f64() / bursts.every.as_secs_f64();
        1.0 / (1.0 - f64::from(self.turns()) * taken)
    }

    /// Lets them loose; they end when dropped.
    ///
    /// # Errors
    /// If one cannot be started.
    pub fn begin(&self, bursts: Bursts) -> Result<Vec<Disturber>> {
        let Bursts { burst, every } = bursts;
        let disturbed = self.disturbed.iter();
        disturbed
            .map(|(cpu, halves)| Disturber::paced(*cpu, burst, every, every * *halves / 2))
            .collect()
    }
}
