//! Verdict on a run of a command: fit, unfit, or unknown.

use serde::Serialize;

use super::{FitnessEvidence, FitnessLimit, LimitedFigure, Range};

/// Verdict on a run, or on one of its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fitness {
    /// The figure is below its limit, even if all unseen time is added.
    Fit,
    /// The figure is not below its limit, even without the unseen time.
    Unfit,
    /// The verdict depends on unseen time.
    CannotTell,
}

/// Verdict on one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FitnessLimitResult {
    /// The judged limit.
    pub limit: FitnessLimit,
    /// Bounds of the run's figure, in the unit of the limit.
    pub has: Range,
    /// Verdict on this limit.
    pub verdict: Fitness,
}

/// Verdict on a run and on each of its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FitnessVerdict {
    /// Unfit if a limit is broken; fit if all limits are kept.
    pub verdict: Fitness,
    /// Verdicts on the limits.
    pub judgements: Vec<FitnessLimitResult>,
}

impl FitnessVerdict {
    /// Judges a run by these limits.
    pub fn new(limits: &[FitnessLimit], evidence: &FitnessEvidence) -> FitnessVerdict {
        let judgements: Vec<FitnessLimitResult> = limits
            .iter()
            .map(|&limit| FitnessLimitResult::new(limit, evidence))
            .collect();
        let any = |verdict| judgements.iter().any(|it| it.verdict == verdict);
        let verdict = if any(Fitness::Unfit) {
            Fitness::Unfit
        } else if any(Fitness::CannotTell) {
            Fitness::CannotTell
        } else {
            Fitness::Fit
        };
        FitnessVerdict {
            verdict,
            judgements,
        }
    }
}

impl FitnessLimitResult {
    fn new(limit: FitnessLimit, evidence: &FitnessEvidence) -> FitnessLimitResult {
        let has = match limit.figure {
            LimitedFigure::Noise => evidence.noise_ppm(),
            LimitedFigure::Max => evidence.longest_ns,
        };
        let verdict = if has.least >= limit.below {
            Fitness::Unfit
        } else if has.most.is_some_and(|most| most < limit.below) {
            Fitness::Fit
        } else {
            Fitness::CannotTell
        };
        FitnessLimitResult {
            limit,
            has,
            verdict,
        }
    }
}

#[cfg(test)]
mod tests {
    use vmnoise_events::coverage::{CommandCoverage, Coverage};

    use super::*;

    fn verdict(least: u64, most: Option<u64>) -> Fitness {
        let limits = [
            (LimitedFigure::Noise, 10_000),
            (LimitedFigure::Max, 1_000_000),
        ];
        let limits = limits.map(|(figure, below)| FitnessLimit { figure, below });
        let evidence = FitnessEvidence {
            taken_ns: Range { least, most },
            longest_ns: Range {
                least: 0,
                most: Some(0),
            },
            worst_thread_ns: Range {
                least: 0,
                most: Some(0),
            },
            wall_ns: 1_000_000,
            of_ns: 1_000_000,
            coverage: Coverage::of_command(CommandCoverage::default()),
        };
        FitnessVerdict::new(&limits, &evidence).verdict
    }

    #[test]
    fn what_is_not_seen_decides_only_where_it_could() {
        assert_eq!(verdict(9_999, Some(9_999)), Fitness::Fit);
        assert_eq!(verdict(10_000, Some(10_000)), Fitness::Unfit);
        assert_eq!(verdict(10_000, None), Fitness::Unfit);
        assert_eq!(verdict(9_999, Some(10_000)), Fitness::CannotTell);
        assert_eq!(verdict(0, None), Fitness::CannotTell);
    }
}
