//! What a run over vCPUs has come to.

use vmnoise_events::coverage::Coverage;
use vmnoise_events::{FinishReason, OwnCost, ProbeStatus};

use super::{ExitExplainer, LongestExit};
use crate::coverage;
use crate::exits::ExitsSummary;
use crate::losses::Losses;

/// The result of a run over vCPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct ExitsRun {
    /// All exits, by the kernel's own sums: exact under loss.
    pub exits: ExitsSummary,
    /// The exits with the most noise, the most first.
    pub longest: Vec<LongestExit>,
    /// Exits reported one by one, at or above the threshold and asked for.
    pub reported: u64,
    /// What others had of these and nobody is named for, in nanoseconds: it was lost.
    pub unnamed_ns: u64,
    /// What activities claimed of these beyond the kernel's own sums, in nanoseconds.
    pub clamped_ns: u64,
    /// What KVM had of these beyond its usual part, where others had part as well, in
    /// nanoseconds; `None` if none told KVM's part.
    pub surplus_kvm_ns: Option<u64>,
    /// What KVM had of these where others had part as well, and too few exits for the same reason
    /// had shown its usual part, in nanoseconds; `None` as above.
    pub unbounded_kvm_ns: Option<u64>,
    /// Everything that was lost, the sum of `losses`.
    pub lost_events: u64,
    /// As `lost_events`, by kind.
    pub losses: Losses,
    /// Activities that came after the watermark that promised none, and exits that came after all
    /// exits of their time had been explained.
    pub late_events: u64,
    /// What measuring cost; `None` if it was not counted.
    pub own_cost: Option<OwnCost>,
    /// How things were witnessed.
    pub probe_statuses: Vec<ProbeStatus>,
    /// What the run could see.
    pub coverage: Coverage,
    /// Whether the run ended in order.
    pub complete: bool,
    /// Why it ended; `None` if it did not.
    pub finish_reason: Option<FinishReason>,
}

impl ExitsRun {
    pub(super) fn summarize(explainer: ExitExplainer) -> ExitsRun {
        let losses = explainer.losses.with_undecodable(explainer.host.crowded());
        let mut run = ExitsRun {
            coverage: Coverage::of(&explainer.facts),
            exits: explainer.exits(),
            reported: explainer.sums.reported,
            unnamed_ns: explainer.sums.unnamed_ns,
            clamped_ns: explainer.sums.clamped_ns,
            surplus_kvm_ns: explainer.sums.held.map(|held| held.surplus_ns),
            unbounded_kvm_ns: explainer.sums.held.map(|held| held.unbounded_ns),
            lost_events: losses.total(),
            losses,
            late_events: explainer.late_events,
            own_cost: explainer.own_cost,
            complete: explainer.finish.is_some(),
            finish_reason: explainer.finish.map(|finish| finish.reason),
            longest: explainer.longest.into_vec(),
            probe_statuses: explainer.facts.probe_statuses,
        };
        coverage::state_of_exits(&mut run);
        run
    }
}
