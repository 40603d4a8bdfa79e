//! JSON document `vmnoise.verdict/1` (docs/json.md).

use serde::Serialize;
use vmnoise_events::coverage::BlindSpot;
use vmnoise_judge::check::{Blame, BudgetLimitResult, LimitVerdict, Reason};

use super::CheckResult;
use crate::json::{DocumentSubject, unit};

#[derive(Debug, Serialize)]
pub(super) struct Document<'a> {
    schema: &'static str,
    tool_version: &'static str,
    verdict: LimitVerdict,
    run: Run<'a>,
    limits: Vec<Limit<'a>>,
    reasons: Vec<InWords<'a>>,
    ask_for_ns: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Run<'a> {
    #[serde(flatten)]
    recorded: DocumentSubject<'a>,
    length_ns: u64,
    values: u64,
}

#[derive(Debug, Serialize)]
struct Limit<'a> {
    figure: String,
    unit: &'static str,
    at_most: f64,
    warn_above: Option<f64>,
    value: Option<f64>,
    cpu: Option<u32>,
    verdict: LimitVerdict,
    reasons: Vec<InWords<'a>>,
    blame: &'a [Blame],
}

/// Reason: keys for programs, and a text for people.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum InWords<'a> {
    /// Blind spot. Its own JSON already contains the text.
    Blind(&'a BlindSpot),
    Other {
        #[serde(flatten)]
        reason: &'a Reason,
        text: String,
    },
}

impl<'a> Document<'a> {
    pub(super) fn new(checked: &'a CheckResult<'_>) -> Document<'a> {
        let (judged, evidence) = (&checked.judged, checked.evidence);
        Document {
            schema: "vmnoise.verdict/1",
            tool_version: env!("CARGO_PKG_VERSION"),
            verdict: judged.verdict,
            run: Run {
                recorded: DocumentSubject::new(&checked.file, &evidence.facts),
                length_ns: evidence.length_ns,
                values: evidence.count(),
            },
            limits: judged.judgements.iter().map(Limit::new).collect(),
            reasons: judged.reasons.iter().map(InWords::new).collect(),
            ask_for_ns: judged.ask_for_ns,
        }
    }
}

impl<'a> Limit<'a> {
    fn new(judgement: &'a BudgetLimitResult) -> Limit<'a> {
        let requirement = &judgement.requirement;
        Limit {
            figure: requirement.quantity.to_string(),
            unit: unit(requirement.quantity.unit()),
            at_most: requirement.at_most,
            warn_above: requirement.warn_above,
            value: judgement.value,
            cpu: judgement.cpu,
            verdict: judgement.verdict,
            reasons: judgement.reasons.iter().map(InWords::new).collect(),
            blame: &judgement.blame,
        }
    }
}

impl<'a> InWords<'a> {
    fn new(reason: &'a Reason) -> InWords<'a> {
        match reason {
            Reason::Blind(spot) => InWords::Blind(spot),
            reason => InWords::Other {
                reason,
                text: reason.to_string(),
            },
        }
    }
}
