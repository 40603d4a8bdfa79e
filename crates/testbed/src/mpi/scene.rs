//! Scenes of an MPI program: which ranks are disturbed, and at which times.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;

use crate::Disturber;

/// Name of the disturber's thread, which results must blame.
pub const CULPRIT: &str = "lab-disturb";

/// Length and period of a disturber's bursts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bursts {
    /// Length of each burst.
    pub burst: Duration,
    /// Time from the start of one burst to the start of the next.
    pub every: Duration,
}

/// Bursts shorter than a step.
pub const BRIEF: Bursts = Bursts {
    burst: Duration::from_micros(300),
    every: Duration::from_millis(2),
};
/// Bursts longer than a step.
pub const LONG: Bursts = Bursts {
    burst: Duration::from_millis(2),
    every: Duration::from_millis(10),
};

/// Scene that says which ranks are disturbed. Rank R runs on CPU R.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankScene {
    /// Name of the scene in reports.
    pub name: &'static str,
    /// CPUs with a disturber. The second number is the start of the disturber's bursts in half
    /// periods.
    disturbed: &'static [(u32, u32)],
}

/// All scenes. The first scene has no disturbers, and serves as the control.
pub const SCENES: [RankScene; 4] = [
    RankScene {
        name: "quiet",
        disturbed: &[],
    },
    RankScene {
        name: "rank 1 disturbed",
        disturbed: &[(1, 0)],
    },
    RankScene {
        name: "both, in phase",
        disturbed: &[(0, 0), (1, 0)],
    },
    RankScene {
        name: "both, out of phase",
        disturbed: &[(0, 0), (1, 1)],
    },
];

impl RankScene {
    /// Returns whether no rank is disturbed.
    pub fn is_quiet(&self) -> bool {
        self.disturbed.is_empty()
    }

    /// Returns the number of bursts per period that do not overlap.
    pub(super) fn turns(&self) -> u32 {
        let phases: BTreeSet<u32> = self.disturbed.iter().map(|(_, halves)| *halves).collect();
        phases.len() as u32
    }

    /// Returns the expected slowdown of a step. It assumes that all ranks wait while one rank is
    /// disturbed, and that there is no other noise.
    pub(super) fn slowdown(&self, bursts: Bursts) -> f64 {
        let taken = bursts.burst.as_secs_f64() / bursts.every.as_secs_f64();
        1.0 / (1.0 - f64::from(self.turns()) * taken)
    }

    /// Starts the disturbers. They end when the returned values are dropped.
    ///
    /// # Errors
    /// If a disturber cannot be started.
    pub fn begin(&self, bursts: Bursts) -> Result<Vec<Disturber>> {
        let Bursts { burst, every } = bursts;
        let disturbed = self.disturbed.iter();
        disturbed
            .map(|(cpu, halves)| Disturber::paced(*cpu, burst, every, every * *halves / 2))
            .collect()
    }
}
