//! What the tests need to build streams by hand. TSC and CLOCK_MONOTONIC are the
//! same here, so that times can be read off.

pub mod any_plans;
pub mod any_scenes;
pub mod blocks;
pub mod by_hand;
pub mod clocks;
pub mod joined_scenes;
pub mod joins;
pub mod kvm_standards;
pub mod lives;
pub mod pairs;
pub mod tasks;
pub mod vcpus;
pub mod worlds;

use vmnoise_events::{
    Activity, ActivityKind, Anchor, Event, Finish, FinishReason, Gap, RunFacts, Share, Source,
    SourceId, Workload, fixtures,
};
use vmnoise_explain::{Explainer, GapDetail, Interval, Summary};

/// Bare metal, everything witnessed, CPU 1 measured.
pub fn facts() -> RunFacts {
    fixtures::facts(Workload::Microvm)
}

/// A polling thread in a machine whose host says nothing but the steal clock.
pub fn polling_in_a_machine() -> RunFacts {
    let mut facts = in_a_machine();
    facts.workload = Workload::Osnoise;
    facts.witnesses.kvm_run = false;
    facts.witnesses.kvm_exit = false;
    facts
}

/// As [`facts`], but something below this machine is out of sight.
pub fn in_a_machine() -> RunFacts {
    let mut facts = facts();
    facts.host.hypervisor = Some("KVM".into());
    facts
}

pub fn source(id: u32, name: &str) -> Event {
    Event::Source(Source {
        id: SourceId(id),
        name: name.to_string().into(),
    })
}

pub fn anchor(at: u64) -> Event {
    Event::Anchor(Anchor {
        before_tsc: at,
        mono_ns: at,
        after_tsc: at,
    })
}

pub fn gap(start_tsc: u64, end_tsc: u64) -> Gap {
    Gap {
        cpu: 1,
        start_tsc,
        end_tsc,
        steal_ns: 0,
        reloads: 0,
        light_exits: 0,
        heavy_exits: 0,
        interference: None,
        run_delay_ns: 0,
    }
}

pub fn activity(kind: ActivityKind, start_mono_ns: u64, end_mono_ns: u64, source: u32) -> Event {
    with_steal(kind, start_mono_ns, end_mono_ns, source, 0)
}

/// An activity with steal inside.
pub fn with_steal(
    kind: ActivityKind,
    start_mono_ns: u64,
    end_mono_ns: u64,
    source: u32,
    steal_ns: u64,
) -> Event {
    Event::Activity(Activity {
        cpu: 1,
        kind,
        start_mono_ns,
        end_mono_ns,
        source: SourceId(source),
        steal_ns,
    })
}

pub fn finish() -> Event {
    Event::Finish(Finish {
        reason: FinishReason::Duration,
        mono_ns: 0,
    })
}

/// Feeds everything; the budgets in the order in which they came, and the summary.
pub fn explain(facts: &RunFacts, events: &[Event]) -> (Vec<Interval>, Summary) {
    let mut explainer = Explainer::new(facts);
    let mut budgets = Vec::new();
    for event in events {
        explainer.push(event, &mut |budget| budgets.push(budget.clone()));
    }
    (budgets, explainer.finish())
}

/// What is known of a gap.
pub fn gap_of(interval: &Interval) -> &GapDetail {
    interval.gap().expect("it is a gap")
}

/// The parts of a budget as plain values.
pub fn parts(budget: &Interval) -> Vec<(Share, Option<u32>, u64)> {
    budget
        .parts
        .iter()
        .map(|part| (part.share, part.source.map(|id| id.0), part.ns))
        .collect()
}
