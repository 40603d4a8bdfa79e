//! Compares budgets across both kernels with an independent oracle. The oracle assigns every
//! nanosecond of small gaps to the event that either side had at this nanosecond.

use std::collections::BTreeMap;

use crate::streams::joined_scenes::*;
use crate::streams::joins::{ALL, BOUNDS, join, obeys_the_law, plain_of_bound, stamped};
use crate::streams::vcpus::ExitScene;
use proptest::collection::vec;
use proptest::prelude::*;
use vmnoise_events::*;

type Painted = BTreeMap<(Share, Option<Name>), u64>;

/// Returns the work of the guest's kernel in this nanosecond.
fn of_guest(at: u64, guest: &[Activity]) -> Option<(Share, Option<Name>)> {
    let of_guest = guest
        .iter()
        .filter(|it| it.start_mono_ns <= at && at < it.end_mono_ns)
        .max_by_key(|it| {
            let (end, id) = (u64::MAX - it.end_mono_ns, it.source);
            (it.kind, it.start_mono_ns, end, id)
        });
    of_guest.map(|it| {
        let share = match it.kind {
            ActivityKind::Throttled => Share::Throttled,
            ActivityKind::Thread => Share::Thread,
            ActivityKind::Softirq => Share::Softirq,
            ActivityKind::Irq => Share::Irq,
            ActivityKind::Nmi => Share::Nmi,
            _ => unreachable!("no kernel of a guest tells it"),
        };
        let name = GUEST_NAMES.get(it.source.0 as usize);
        (share, name.map(|&name| name.into()))
    })
}

/// Returns the owner of this nanosecond of the guest, and whether the guest's vCPU waits for a CPU
/// in it.
fn owner(
    at: u64,
    guest: &[Activity],
    scenes: &[ExitScene],
) -> (Option<(Share, Option<Name>)>, bool) {
    let of_guest = of_guest(at, guest);
    let out = scenes.iter().find(|it| it.start_ns <= at && at < it.end_ns);
    let Some(scene) = out else {
        return (of_guest, false);
    };
    let waits = scene.intervals.iter().any(|it| {
        it.kind == VcpuIntervalKind::Waiting && it.start_mono_ns <= at && at < it.end_mono_ns
    });
    let (share, id) = scene.owner(at);
    let name = match share {
        Share::Kvm | Share::Vmm => Some(scene.exit().reason.name().as_ref().into()),
        _ => id.map(|id| scene.names[id as usize].as_str().into()),
    };
    match of_guest.filter(|_| share == Share::Halted) {
        Some(asleep) => (Some(asleep), waits),
        None => (Some((share, name)), waits),
    }
}

/// Returns whether the overlap of this exit with this time is too short for the clock error.
fn is_blurred(scene: &ExitScene, (from, to): (u64, u64), bound_ns: u64) -> bool {
    let both = (from..to).filter(|at| (scene.start_ns..scene.end_ns).contains(at));
    both.count() as u64 <= 2 * bound_ns
}

fn paint(gap: &Gap, guest: &[Activity], scenes: &[ExitScene], bound_ns: u64) -> Painted {
    let mut painted = Painted::new();
    let (mut left, mut waited) = (0, 0);
    let span = (gap.start_tsc, gap.end_tsc);
    let blurred = scenes.iter().map(|it| is_blurred(it, span, bound_ns));
    let blurred: Vec<bool> = blurred.collect();
    for at in gap.start_tsc..gap.end_tsc {
        let (owner, waits) = owner(at, guest, scenes);
        let out = scenes
            .iter()
            .position(|it| it.start_ns <= at && at < it.end_ns);
        let is_blurred = out.is_some_and(|place| blurred[place]);
        waited += u64::from(waits && !is_blurred);
        // While a vCPU is halted at its guest's request, the work of the guest's kernel remains the
        // owner of the time.
        let is_guests = out.is_none_or(|place| {
            scenes[place].owner(at).0 == Share::Halted && of_guest(at, guest).is_some()
        });
        match owner.filter(|_| !is_blurred || is_guests) {
            Some(owner) => *painted.entry(owner).or_default() += 1,
            None => left += 1,
        }
    }
    let stolen = gap.steal_ns.saturating_sub(waited).min(left);
    let overlaps = |start, end| start < gap.end_tsc && end > gap.start_tsc;
    let held = guest
        .iter()
        .any(|it| overlaps(it.start_mono_ns, it.end_mono_ns))
        || scenes
            .iter()
            .any(|it| overlaps(it.start_ns - bound_ns, it.end_ns + bound_ns));
    let rest = match (held, gap.end_tsc - gap.start_tsc > 2 * bound_ns) {
        (true, _) => Share::Unexplained,
        (false, true) => Share::Hw,
        (false, false) => Share::HvOrHw,
    };
    painted.extend([
        ((Share::Steal, None), stolen),
        ((rest, None), left - stolen),
    ]);
    painted.retain(|_, ns| *ns > 0);
    painted
}

laws! {
    one_in(32);

    #[test]
    fn every_nanosecond_is_booked_as_painted(
        scenes in exits(),
        activities in guest_activities(),
        cuts in vec(900..12_500_u64, 2..12),
        steal_ns in vec(0..700_u64, 1..3),
        marks in (vec(any::<bool>(), 0..30), vec(any::<bool>(), 0..60)),
        bound in 0..BOUNDS,
    ) {
        let gaps = gaps(cuts, &steal_ns);
        let (guest_facts, host_facts, pairs, shown) = plain_of_bound(bound);
        let bound_ns = pairs.bound_ns(0).unwrap();
        let guest_marks = true_marks(&gaps, &activities, &marks.0);
        let run = join(
            (&guest_facts, &shown.stream(guest_stream(&gaps, &activities, &guest_marks))),
            (&host_facts, &host_stream(&scenes, &marks.1)),
            pairs,
            ALL,
        );

        obeys_the_law(&run);
        prop_assert_eq!(run.joined.gaps, gaps.len() as u64);
        prop_assert_eq!(run.joined.witnessed, gaps.len() as u64);
        let short = gaps.iter().filter(|gap| gap.end_tsc - gap.start_tsc <= 2 * bound_ns);
        prop_assert_eq!(run.joined.unsure.count, short.count() as u64);
        let mut blamed = Painted::new();
        for gap in &gaps {
            let start_tsc = shown.tsc(gap.start_tsc);
            let tree = run.trees.iter().find(|tree| stamped(tree).0 == start_tsc).unwrap();
            let painted = paint(gap, &activities, &scenes, bound_ns);
            let parts = tree.of.parts.iter();
            let booked: Painted = parts
                .map(|part| ((part.share, part.source.clone()), part.ns))
                .collect();
            prop_assert_eq!(&booked, &painted);
            for (who, ns) in painted {
                *blamed.entry(who).or_default() += ns;
            }
        }
        let mut ranked = Painted::new();
        for culprit in &run.culprits {
            let who = (culprit.share, culprit.name.clone());
            *ranked.entry(who).or_default() += culprit.total_ns;
        }
        prop_assert_eq!(ranked, blamed);
    }
}
