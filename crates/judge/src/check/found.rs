//! Verdict on one limit, with the figure and the reasons.

use serde::Serialize;
use vmnoise_events::coverage::BlindSpot;

use super::reason::Reason;

/// Verdict on one limit or on all limits, ordered from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitVerdict {
    /// The limit is kept.
    Pass,
    /// The limit is kept, with a warning.
    Warn,
    /// The run does not show whether the limit is kept.
    CannotTell,
    /// The limit is broken.
    Fail,
}

/// Verdict of a run on one limit.
pub(super) struct Found {
    pub(super) verdict: LimitVerdict,
    pub(super) value: Option<f64>,
    pub(super) reasons: Vec<Reason>,
}

impl Found {
    pub(super) fn kept(value: f64) -> Found {
        Found {
            verdict: LimitVerdict::Pass,
            value: Some(value),
            reasons: Vec::new(),
        }
    }

    pub(super) fn broken(value: f64) -> Found {
        Found {
            verdict: LimitVerdict::Fail,
            value: Some(value),
            reasons: vec![Reason::Above],
        }
    }

    pub(super) fn open(value: Option<f64>, reasons: Vec<Reason>) -> Found {
        Found {
            verdict: LimitVerdict::CannotTell,
            value,
            reasons,
        }
    }

    /// Returns that the limit is kept. If the recording has blind spots, returns that the run
    /// cannot tell.
    pub(super) fn kept_but_for(value: f64, spots: Vec<BlindSpot>) -> Found {
        match spots.is_empty() {
            true => Found::kept(value),
            false => Found::open(Some(value), blind(spots)),
        }
    }
}

/// Returns these blind spots as reasons.
pub(super) fn blind(spots: Vec<BlindSpot>) -> Vec<Reason> {
    spots.into_iter().map(Reason::Blind).collect()
}
