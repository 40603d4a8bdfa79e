//! Result of a run over vCPUs.

use vmnoise_events::coverage::Coverage;
use vmnoise_events::{FinishReason, OwnCost, ProbeStatus};

use super::{ExitExplainer, LongestExit};
use crate::exits::ExitsSummary;
use crate::losses::Losses;

/// Result of a run over vCPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct ExitsRun {
    /// All exits, from the kernel's own sums: exact even if records were lost.
    pub exits: ExitsSummary,
    /// Exits with the most noise, the most first.
    pub longest: Vec<LongestExit>,
    /// Number of exits that were explained one by one. Filters and the threshold may leave out
    /// exits.
    pub reported: u64,
    /// Time in these exits that other tasks took, but whose culprit is unknown because records were
    /// lost, in nanoseconds.
    pub unnamed_ns: u64,
    /// Time in these exits that activities claimed beyond the kernel's own sums, in nanoseconds.
    pub clamped_ns: u64,
    /// KVM's time above its usual time, in nanoseconds, in the reported exits in which the host did
    /// other work. `None` if no exit shows KVM's part.
    pub surplus_kvm_ns: Option<u64>,
    /// KVM's time without an upper bound in the reported exits, in nanoseconds. In these exits the
    /// host did other work, and too few exits for the same reason show KVM's usual time. `None` if
    /// no exit shows KVM's part.
    pub unbounded_kvm_ns: Option<u64>,
    /// Number of lost records, the sum of `losses`.
    pub lost_events: u64,
    /// Lost records by kind.
    pub losses: Losses,
    /// Number of activities that arrived too late, after a watermark beyond their end, and of exits
    /// that arrived after all exits at their time had been explained.
    pub late_events: u64,
    /// Cost of measuring; `None` if the cost was not counted.
    pub own_cost: Option<OwnCost>,
    /// Status of each probe.
    pub probe_statuses: Vec<ProbeStatus>,
    /// Coverage of the run.
    pub coverage: Coverage,
    /// Whether the run ended normally.
    pub complete: bool,
    /// Reason for the end; `None` if the run was cut off.
    pub finish_reason: Option<FinishReason>,
}

impl ExitsRun {
    pub(super) fn summarize(explainer: ExitExplainer) -> ExitsRun {
        let losses = explainer.losses.with_undecodable(explainer.host.crowded());
        ExitsRun {
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
        }
    }
}
