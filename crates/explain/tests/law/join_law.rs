//! Tests the law of joins with damaged streams. For any events of either side, budgets across both
//! kernels add up, trees and culprits add up to the budgets, and nothing panics.

use crate::streams::joined_scenes::*;
use crate::streams::joins::{ALL, BOUNDS, join, obeys_the_law, plain_of_bound};
use proptest::collection::vec;
use proptest::prelude::*;
use vmnoise_events::*;
use vmnoise_explain::JoinOptions;

/// Damage to one event: its index, the kind of damage, and a number for the damage.
type Damage = (prop::sample::Index, u8, u64);

fn damaged(mut events: Vec<Event>, damage: &[Damage]) -> Vec<Event> {
    for (place, what, number) in damage {
        let place = place.index(events.len());
        match what % 6 {
            0 => drop(events.remove(place)),
            1 => events.insert(place, events[place].clone()),
            2 => {
                let other = (place + *number as usize) % events.len();
                events.swap(place, other);
            }
            3 => bend(&mut events[place], *number),
            4 => events.insert(place, Event::Watermark(AT + number % 12_000)),
            _ => {
                let kind = LossKind::ALL[*number as usize % LossKind::ALL.len()];
                events.insert(
                    place,
                    Event::Loss(Loss {
                        kind,
                        count: *number,
                    }),
                );
            }
        }
        if events.is_empty() {
            break;
        }
    }
    events
}

/// Changes one number of the event, either a little or to an extreme.
fn bend(event: &mut Event, by: u64) {
    let off = |ns: &mut u64| {
        *ns = match by % 4 {
            0 => u64::MAX - by % 7,
            1 => by % 1_000,
            _ => ns.wrapping_add(by % 2_000).wrapping_sub(1_000),
        }
    };
    match event {
        Event::Gap(gap) if by.is_multiple_of(3) => gap.steal_ns = by,
        Event::Gap(gap) if by.is_multiple_of(2) => off(&mut gap.start_tsc),
        Event::Gap(gap) => off(&mut gap.end_tsc),
        Event::Activity(it) if by.is_multiple_of(3) => it.steal_ns = by % 5_000,
        Event::Activity(it) if by.is_multiple_of(2) => off(&mut it.start_mono_ns),
        Event::Activity(it) => off(&mut it.end_mono_ns),
        Event::VcpuInterval(it) if by.is_multiple_of(2) => off(&mut it.start_mono_ns),
        Event::VcpuInterval(it) => off(&mut it.end_mono_ns),
        Event::Exit(it) if by.is_multiple_of(3) => off(&mut it.exit.split[Share::Preempted]),
        Event::Exit(it) if by.is_multiple_of(2) => off(&mut it.exit.start_mono_ns),
        Event::Exit(it) => off(&mut it.exit.end_mono_ns),
        Event::Watermark(at) => off(at),
        _ => {}
    }
}

fn witnesses(bits: u16) -> Witnesses {
    let bit = |n: u16| bits >> n & 1 == 1;
    Witnesses {
        irq: bit(0),
        softirq: bit(1),
        nmi: bit(2),
        sched: bit(3),
        kvm_run: bit(4),
        kvm_exit: bit(5),
        steal_clock: bit(6),
        activity_steal: bit(7),
        timer: false,
        run_delay: bit(8),
        hides_vectors: false,
    }
}

fn damage() -> impl Strategy<Value = Vec<Damage>> {
    vec(
        (any::<prop::sample::Index>(), any::<u8>(), any::<u64>()),
        0..12,
    )
}

laws! {
    one_in(4);

    #[test]
    fn holds_for_any_two_streams(
        scenes in exits(),
        mut activities in guest_activities(),
        cuts in vec(900..12_500_u64, 2..12),
        steal_ns in vec(0..700_u64, 1..3),
        marks in (vec(any::<bool>(), 0..30), vec(any::<bool>(), 0..60)),
        damages in (damage(), damage()),
        bits in any::<u16>(),
        asked in (0..4_000_u64, 0..4_usize, any::<bool>()),
        bound in 0..BOUNDS,
    ) {
        let (mut guest_facts, mut host_facts, pairs, shown) = plain_of_bound(bound);
        guest_facts.witnesses = witnesses(bits);
        if bits >> 8 & 1 == 1 {
            guest_facts.workload = MeasuringCommand::Microvm;
            // The recording of a microVM has activities of its host.
            for (place, activity) in activities.iter_mut().enumerate() {
                activity.kind = ActivityKind::ALL[place % ActivityKind::ALL.len()];
            }
        }
        if bits >> 9 & 1 == 1 {
            guest_facts.host.hypervisor = None;
        }
        host_facts.witnesses = witnesses(bits.rotate_left(6));
        host_facts.options.threshold_ns = if bits >> 15 & 1 == 1 { 400 } else { 0 };
        let guest = guest_stream(&gaps(cuts, &steal_ns), &activities, &marks.0);
        let guest = damaged(shown.stream(guest), &damages.0);
        let host = damaged(host_stream(&scenes, &marks.1), &damages.1);
        let (above_ns, top, all) = asked;
        let options = match all {
            true => ALL,
            false => JoinOptions { above_ns, top },
        };
        let run = join((&guest_facts, &guest), (&host_facts, &host), pairs, options);
        obeys_the_law(&run);
        let again = join((&guest_facts, &guest), (&host_facts, &host), plain_of_bound(bound).2, options);
        prop_assert_eq!(run, again);
    }
}
