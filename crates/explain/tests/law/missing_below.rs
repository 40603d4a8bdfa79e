//! Tests a host's stream in which one event is missing, as `missing` does for gaps. The host's
//! stream is explained alone, or joined with a guest's stream. In a join, the event may instead be
//! missing in the guest's stream.

use std::collections::BTreeMap;

use super::missing::without;
use crate::laws::exits;
use crate::streams::any_scenes::any_scenes;
use crate::streams::joined_scenes::{
    GUEST_NAMES, gaps, guest_activities, guest_stream, host_stream,
};
use crate::streams::joins::{ALL, join, obeys_the_law, plain, stamped};
use crate::streams::vcpus::{ExitScene, SceneOwner, events_of, explain, facts};
use proptest::collection::vec;
use proptest::prelude::*;
use vmnoise_events::*;
use vmnoise_explain::{ExitBudget, JoinTree};

/// Returns the length of the interval that this record reports; 0 for other records.
fn length_ns(event: &Event) -> u64 {
    match event {
        Event::Activity(it) => it.end_mono_ns - it.start_mono_ns,
        Event::VcpuInterval(it) => it.end_mono_ns - it.start_mono_ns,
        Event::Exit(it) => it.exit.dur_ns(),
        _ => 0,
    }
}

fn sum_by<K: Ord>(parts: impl Iterator<Item = (K, u64)>) -> BTreeMap<K, u64> {
    let mut sums = BTreeMap::new();
    for (key, ns) in parts {
        *sums.entry(key).or_default() += ns;
    }
    sums
}

/// Returns whether this record says on which other CPU the thread continued. Without the record,
/// the names are those of another CPU.
fn says_where(event: &Event) -> bool {
    matches!(event, Event::VcpuInterval(it) if it.cpu != it.to_cpu)
}

/// Asserts that each share of an exit is the kernel's own sum, which no missing record changes.
/// Asserts that each named source has at most its true time plus that of the missing record.
fn is_of_this_exit(
    budget: &ExitBudget,
    scene: &ExitScene,
    missing: &Event,
) -> Result<(), TestCaseError> {
    let lost_ns = length_ns(missing);
    let truth = scene.painted();
    let of_share = |share: Share| -> u64 {
        let of = truth.iter().filter(|((it, _), _)| *it == share);
        of.map(|(_, ns)| ns).sum()
    };
    let parts = budget.parts.iter();
    let booked = sum_by(parts.clone().map(|part| (part.share, part.ns)));
    for (share, ns) in booked {
        prop_assert_eq!(ns, of_share(share), "{}: {:?}", share, budget);
    }
    if says_where(missing) {
        return Ok(());
    }
    let named: BTreeMap<SceneOwner, u64> =
        sum_by(parts.map(|part| ((part.share, part.source.map(|id| id.0)), part.ns)));
    for ((share, source), ns) in named.iter().filter(|((_, source), _)| source.is_some()) {
        let truth_ns = truth.get(&(*share, *source)).copied().unwrap_or(0);
        prop_assert!(*ns <= truth_ns + lost_ns, "{share} {source:?}: {budget:?}");
    }
    Ok(())
}

/// Returns the true time of each name in this gap, which is the most that may be blamed on the
/// name.
fn truth_below(gap: &Gap, guest: &[Activity], scenes: &[ExitScene]) -> BTreeMap<Name, u64> {
    let mut truth: BTreeMap<Name, u64> = BTreeMap::new();
    for it in guest {
        let (from_ns, to_ns) = (
            it.start_mono_ns.max(gap.start_tsc),
            it.end_mono_ns.min(gap.end_tsc),
        );
        if let Some(name) = GUEST_NAMES.get(it.source.0 as usize) {
            *truth.entry((*name).into()).or_default() += to_ns.saturating_sub(from_ns);
        }
    }
    for scene in scenes {
        let reason: Name = scene.exit().reason.name().as_ref().into();
        for at in scene.start_ns.max(gap.start_tsc)..scene.end_ns.min(gap.end_tsc) {
            let (share, id) = scene.owner(at);
            let name = match share {
                Share::Kvm | Share::Vmm => Some(reason.clone()),
                _ => id.map(|id| scene.names[id as usize].as_str().into()),
            };
            if let Some(name) = name {
                *truth.entry(name).or_default() += 1;
            }
        }
    }
    truth
}

fn was_disturbed(gap: &Gap, guest: &[Activity], scenes: &[ExitScene]) -> bool {
    let overlaps = |start_ns, end_ns| start_ns < gap.end_tsc && end_ns > gap.start_tsc;
    guest
        .iter()
        .any(|it| overlaps(it.start_mono_ns, it.end_mono_ns))
        || scenes.iter().any(|it| overlaps(it.start_ns, it.end_ns))
}

fn blames_nobody_else(
    tree: &JoinTree,
    truth: &BTreeMap<Name, u64>,
    lost_ns: u64,
) -> Result<(), TestCaseError> {
    let named = tree
        .of
        .parts
        .iter()
        .filter(|part| !part.share.is_residual());
    let named = named.filter_map(|part| Some((part.source.clone()?, part.ns)));
    for (name, ns) in sum_by(named) {
        let truth_ns = truth.get(&name).copied().unwrap_or(0);
        prop_assert!(ns <= truth_ns + lost_ns, "{name}: {tree:?}");
    }
    Ok(())
}

laws! {
    one_in(4);

    #[test]
    fn a_missing_record_costs_an_exit_a_name_and_no_time(
        scenes in any_scenes(),
        watermarks in vec(any::<bool>(), 0..60),
        place in any::<prop::sample::Index>(),
    ) {
        let events = events_of(&scenes, &watermarks);
        let about_time: Vec<usize> =
            (0..events.len()).filter(|place| length_ns(&events[*place]) > 0).collect();
        let (events, missing) = without(events, about_time[place.index(about_time.len())]);
        let (budgets, run) = explain(&facts(), &events);
        exits::obeys_the_law(&budgets, &run);
        prop_assert_eq!(run.coverage.lost.names + run.coverage.lost.gaps, 1);
        let gone = matches!(missing, Event::Exit(_));
        prop_assert_eq!(budgets.len() + usize::from(gone), scenes.len());
        for budget in &budgets {
            let begins = |scene: &&ExitScene| {
                VcpuId(scene.vcpu) == budget.vcpu && scene.start_ns == budget.exit.start_mono_ns
            };
            let scene = scenes.iter().find(begins).expect("an exit of a scene");
            is_of_this_exit(budget, scene, &missing)?;
        }
    }

    #[test]
    fn a_missing_record_makes_no_joined_gap_firmer(
        scenes in crate::streams::joined_scenes::exits(),
        activities in guest_activities(),
        cuts in vec(900..12_500_u64, 2..12),
        marks in vec(any::<bool>(), 0..60),
        of_host in any::<bool>(),
        place in any::<prop::sample::Index>(),
    ) {
        let gaps = gaps(cuts, &[0]);
        let (guest_facts, host_facts, pairs) = plain();
        let (mut guest, mut host) = (guest_stream(&gaps, &activities, &[]), host_stream(&scenes, &marks));
        let side = if of_host { &mut host } else { &mut guest };
        let about_time: Vec<usize> =
            (0..side.len()).filter(|place| length_ns(&side[*place]) > 0).collect();
        if about_time.is_empty() {
            return Ok(());
        }
        let missing;
        (*side, missing) = without(std::mem::take(side), about_time[place.index(about_time.len())]);
        let run = join((&guest_facts, &guest), (&host_facts, &host), pairs, ALL);
        obeys_the_law(&run);
        let coverage = &run.summary.coverage;
        let lost = (coverage.lost.names, coverage.host.as_ref().map(|host| host.lost_names));
        prop_assert_eq!(lost, (u64::from(!of_host), Some(u64::from(of_host))));
        for gap in &gaps {
            let tree = run.trees.iter().find(|tree| stamped(tree).0 == gap.start_tsc).unwrap();
            let truth = truth_below(gap, &activities, &scenes);
            if !says_where(&missing) {
                blames_nobody_else(tree, &truth, length_ns(&missing))?;
            }
            let hw = tree.of.parts.iter().any(|part| part.share == Share::Hw);
            prop_assert!(!(hw && was_disturbed(gap, &activities, &scenes)), "{tree:?}");
        }
    }
}
