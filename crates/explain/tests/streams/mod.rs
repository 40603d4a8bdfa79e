//! Helpers that build streams of events. In handwritten streams, the TSC equals CLOCK_MONOTONIC, so
//! that times are easy to read.

pub mod any_plans;
pub mod any_scenes;
pub mod blocks;
pub mod by_hand;
pub mod clocks;
pub mod joined_scenes;
pub mod joins;
mod kvm_pvm;
pub mod kvm_standards;
pub mod lives;
pub mod pairs;
pub mod tasks;
pub mod vcpus;
pub mod worlds;

pub use vmnoise_events::fixtures::by_hand::{
    activity, anchor, facts, finish, gap, in_a_machine, polling_in_a_machine, source, with_steal,
};
use vmnoise_events::{Event, RunFacts, Share};
use vmnoise_explain::{Explainer, GapDetail, Interval, Summary};

/// Explains all events. Returns the budgets in the order in which they came, and the summary.
pub fn explain(facts: &RunFacts, events: &[Event]) -> (Vec<Interval>, Summary) {
    let mut explainer = Explainer::new(facts);
    let mut budgets = Vec::new();
    for event in events {
        explainer.push(event, &mut |budget| budgets.push(budget.clone()));
    }
    (budgets, explainer.finish())
}

/// Returns the details of a gap.
pub fn gap_of(interval: &Interval) -> &GapDetail {
    interval.gap().expect("it is a gap")
}

/// Returns the parts of a budget as plain values.
pub fn parts(budget: &Interval) -> Vec<(Share, Option<u32>, u64)> {
    budget
        .parts
        .iter()
        .map(|part| (part.share, part.source.map(|id| id.0), part.ns))
        .collect()
}
