//! Compares latencies across both kernels with an independent oracle. The oracle assigns every
//! nanosecond of small wake-ups to the event that either side had at this nanosecond.

use std::collections::BTreeMap;

use crate::streams::joined_scenes::*;
use crate::streams::joins::{ALL, BOUNDS, join, plain, plain_of_bound};
use crate::streams::tasks::of_tasks;
use crate::streams::vcpus::ExitScene;
use proptest::collection::vec;
use proptest::prelude::*;
use vmnoise_events::*;
use vmnoise_explain::{JoinedLatencies, JoinedRun, NamedPiece, Phase, PhaseSides};

type Painted = BTreeMap<(Option<Phase>, Share, Option<Name>), u64>;

/// Returns the phase of this nanosecond; `None` if an event that delimits the phase is missing.
fn phase(at: u64, it: &Activation) -> Option<Phase> {
    let steps = [
        it.armed_mono_ns,
        it.irq_mono_ns,
        it.waking_mono_ns,
        it.switch_mono_ns,
    ];
    let ends = steps.into_iter().chain([Some(it.woke_mono_ns)]);
    let mut before = Some(it.expiry_mono_ns);
    let mut reached = it.expiry_mono_ns;
    for (phase, end) in Phase::ALL.into_iter().zip(ends) {
        let known = before.zip(end).is_some();
        if let Some(end) = end {
            let end = end.clamp(reached, it.woke_mono_ns);
            if at < end {
                return known.then_some(phase);
            }
            reached = end;
        }
        before = end;
    }
    None
}

fn of_guest(at: u64, phase: Option<Phase>, guest: &[Activity]) -> Option<(Share, Option<Name>)> {
    let holds = |it: &&Activity| {
        phase != Some(Phase::Irq) || matches!(it.kind, ActivityKind::Irq | ActivityKind::Nmi)
    };
    let open = guest
        .iter()
        .filter(|it| it.start_mono_ns <= at && at < it.end_mono_ns);
    let owner = open.filter(holds).max_by_key(|it| {
        (
            it.kind,
            it.start_mono_ns,
            u64::MAX - it.end_mono_ns,
            it.source,
        )
    })?;
    let share = match owner.kind {
        ActivityKind::Throttled => Share::Throttled,
        ActivityKind::Thread => Share::Thread,
        ActivityKind::Softirq => Share::Softirq,
        ActivityKind::Irq => Share::Irq,
        ActivityKind::Nmi => Share::Nmi,
        _ => unreachable!("no kernel of a guest tells it"),
    };
    let name = GUEST_NAMES.get(owner.source.0 as usize);
    Some((share, name.map(|name| name.to_string()).map(Into::into)))
}

/// Phase of a segment, and its nanoseconds.
type Reported = (Option<Phase>, std::ops::Range<u64>);

/// Returns the segments between the recorded events, in time order.
fn stretches(it: &Activation) -> Vec<Reported> {
    let mut stretches: Vec<Reported> = Vec::new();
    let steps = [
        it.armed_mono_ns,
        it.irq_mono_ns,
        it.waking_mono_ns,
        it.switch_mono_ns,
    ];
    let mut reached = it.expiry_mono_ns;
    let steps: Vec<u64> = steps
        .into_iter()
        .flatten()
        .map(|step| {
            reached = step.clamp(reached, it.woke_mono_ns);
            reached
        })
        .collect();
    for at in it.expiry_mono_ns..it.woke_mono_ns {
        let phase = phase(at, it);
        // A recorded event separates two segments even if the phase of both is unknown.
        let is_step = steps.contains(&at);
        match stretches.last_mut() {
            Some((last, span)) if *last == phase && !is_step => span.end = at + 1,
            _ => stretches.push((phase, at..at + 1)),
        }
    }
    stretches
}

fn paint(it: &Activation, guest: &[Activity], scenes: &[ExitScene], bound_ns: u64) -> Painted {
    let mut painted = Painted::new();
    let stretches = stretches(it);
    let blurs = |scene: &ExitScene, span: &std::ops::Range<u64>| {
        let both = span
            .clone()
            .filter(|at| (scene.start_ns..scene.end_ns).contains(at));
        both.count() as u64 <= 2 * bound_ns
    };
    let blurred: Vec<Vec<bool>> = stretches
        .iter()
        .map(|(_, span)| scenes.iter().map(|scene| blurs(scene, span)).collect())
        .collect();
    for at in it.expiry_mono_ns..it.woke_mono_ns {
        let place = stretches.iter().position(|(_, span)| span.contains(&at));
        let place = place.expect("it is in one of them");
        let phase = stretches[place].0;
        let own = of_guest(at, phase, guest);
        let blurred = |scene: &ExitScene| {
            let number = scenes.iter().position(|it| it.start_ns == scene.start_ns);
            blurred[place][number.expect("one of these")]
        };
        let out = scenes
            .iter()
            .find(|scene| scene.start_ns <= at && at < scene.end_ns);
        let (share, name) = match (out, own) {
            (None, own) => own.unwrap_or((Share::Unexplained, None)),
            (Some(scene), own) if blurred(scene) => {
                let slept = scene.owner(at).0 == Share::Halted;
                own.filter(|_| slept).unwrap_or((Share::Unexplained, None))
            }
            (Some(scene), own) => match (scene.owner(at), own) {
                ((Share::Halted, _), Some(own)) => own,
                ((Share::Halted, _), None) => {
                    (Share::Blocked, Some("asleep past the expiry".into()))
                }
                ((share @ (Share::Kvm | Share::Vmm), _), _) => {
                    (share, Some(scene.exit().reason.name().as_ref().into()))
                }
                ((share, id), _) => (share, id.map(|id| scene.names[id as usize].as_str().into())),
            },
        };
        *painted.entry((phase, share, name)).or_default() += 1;
    }
    painted
}

/// Returns wake-ups with events in any order, some of them missing.
fn any_wakeup() -> impl Strategy<Value = Activation> {
    let step = prop::option::weighted(0.8, 0..2_500_u64);
    let steps = (step.clone(), step.clone(), step.clone(), step);
    (900..11_000_u64, 0..2_500_u64, steps, any::<[u8; 5]>()).prop_map(
        |(from, long, steps, steal)| {
            let expiry_mono_ns = AT + from;
            let at = |after: Option<u64>| after.map(|ns| expiry_mono_ns + ns);
            let (armed, irq, waking, switch) = steps;
            Activation {
                cpu: 0,
                expiry_mono_ns,
                woke_mono_ns: expiry_mono_ns + long,
                armed_mono_ns: at(armed.map(|ns| ns / 20)),
                irq_mono_ns: at(irq),
                waking_mono_ns: at(waking),
                switch_mono_ns: at(switch),
                // The host recorded the whole time, so the guest's steal clock adds nothing.
                steal_ns: steal.map(u64::from),
                missed: 0,
            }
        },
    )
}

fn obeys_the_law(run: &JoinedRun) -> &JoinedLatencies {
    let latencies = run.latencies.as_ref().expect("tasks were joined");
    let reported = run.summary.wakeups.as_ref().expect("tasks were measured");
    let sum = |parts: &mut dyn Iterator<Item = u64>| -> u64 { parts.sum() };
    for tree in &latencies.trees {
        let latency_ns = tree.of.dur_ns;
        assert_eq!(sum(&mut tree.of.parts.iter().map(|it| it.ns)), latency_ns);
        assert_eq!(
            sum(&mut tree.stretches.iter().map(|it| it.dur_ns)),
            latency_ns
        );
        let mut from_ns = tree.of.start_mono_ns;
        for phase in &tree.stretches {
            let within = from_ns..=from_ns + phase.dur_ns;
            from_ns += phase.dur_ns;
            let exits = phase.exits.iter().map(|exit| exit.dur_ns);
            let guest = phase.guest.iter().map(|part| part.ns);
            let all = sum(&mut exits.chain(guest)) + phase.steal_ns + phase.residual_ns;
            assert_eq!(all, phase.dur_ns, "{tree:?}");
            for exit in &phase.exits {
                assert_eq!(sum(&mut exit.parts.iter().map(|it| it.ns)), exit.dur_ns);
                for piece in &exit.pieces {
                    let (start_ns, end_ns) = (piece.start_mono_ns, piece.end_mono_ns);
                    assert!(within.contains(&start_ns) && within.contains(&end_ns));
                }
                // A sleep counts as work of the guest if the guest's kernel was busy, so `Blocked`
                // is left out here.
                for share in Share::ALL.into_iter().filter(|it| *it != Share::Blocked) {
                    let pieces = exit.pieces.iter().filter(|it| it.share == share);
                    let parts = exit.parts.iter().filter(|it| it.share == share);
                    let pieces_ns = sum(&mut pieces.map(NamedPiece::dur_ns));
                    assert_eq!(pieces_ns, sum(&mut parts.map(|it| it.ns)), "{exit:?}");
                }
            }
        }
    }
    let total_ns = sum(&mut latencies.cpus.iter().map(|cpu| cpu.contexts[2].total_ns));
    assert_eq!(total_ns, latencies.joined.latency_ns);
    for (cpu, reported) in latencies.cpus.iter().zip(&reported.cpus) {
        for sides in &cpu.contexts {
            let of_sides = sides.guest_ns + sides.host_ns + sides.unknown_ns;
            assert_eq!(of_sides, sides.total_ns);
            assert_eq!(sides.shares_ns.total(), sides.total_ns);
        }
        assert_eq!(cpu.contexts[2].shares_ns, reported.shares_ns);
        let of_phases = cpu.phases.iter();
        let all_ns = |side: fn(&PhaseSides) -> u64| sum(&mut of_phases.clone().map(side));
        let user = &cpu.contexts[2];
        assert_eq!(all_ns(|it| it.guest_ns), user.guest_ns);
        assert_eq!(all_ns(|it| it.host_ns), user.host_ns);
        assert_eq!(all_ns(|it| it.unknown_ns), user.unknown_ns);
        let phases = of_phases.map(|it| it.guest_ns + it.host_ns + it.unknown_ns);
        let it = reported.phases_ns;
        let known = [it.armed_late, it.irq, it.handler, it.wakeup, it.return_];
        let known = known.map(|ns| ns.unwrap_or(0)).into_iter();
        assert!(phases.eq(known.chain([it.unsplit])));
        let counts = [reported.irq, reported.thread, reported.user];
        let counts = counts.map(|figures| figures.map_or(0, |figures| figures.count));
        assert_eq!(counts, [0, 1, 2].map(|place| cpu.contexts[place].count));
    }
    let blamed = sum(&mut latencies.culprits.iter().map(|it| it.total_ns));
    assert_eq!(blamed, total_ns, "all of them count");
    latencies
}

laws! {
    one_in(16);

    #[test]
    fn every_nanosecond_of_a_latency_is_booked_as_painted(
        scenes in exits(),
        activities in guest_activities(),
        wakeups in vec(any_wakeup(), 1..5),
        host_marks in vec(any::<bool>(), 0..60),
        bound in 0..BOUNDS,
    ) {
        let (guest_facts, host_facts, pairs, shown) = plain_of_bound(bound);
        let bound_ns = pairs.bound_ns(0).unwrap();
        let guest_facts = of_tasks(guest_facts);
        let run = join(
            (&guest_facts, &shown.stream(task_stream(&wakeups, &activities, &[]))),
            (&host_facts, &host_stream(&scenes, &host_marks)),
            pairs,
            ALL,
        );

        let latencies = obeys_the_law(&run);
        prop_assert_eq!(latencies.joined.wakeups, wakeups.len() as u64);
        prop_assert_eq!(latencies.joined.witnessed, wakeups.len() as u64);
        let [.., user] = &latencies.cpus[0].contexts;
        // If the clock error is small enough, the residual belongs to the guest's side. Otherwise,
        // its side is unknown.
        let short = |span: &std::ops::Range<u64>| span.end - span.start <= 2 * bound_ns;
        let reported: Vec<Reported> = wakeups.iter().flat_map(stretches).collect();
        let unsure = reported.iter().filter(|(_, span)| short(span)).count() as u64;
        prop_assert_eq!(latencies.joined.unsure.count, unsure);
        prop_assert!(user.unknown_ns <= latencies.joined.unsure.ns);
        let mut reported: Vec<(u64, u64, Painted)> = latencies.trees.iter().map(|tree| {
            let parts = tree.of.parts.iter();
            let parts = parts.map(|it| ((it.phase, it.share, it.source.clone()), it.ns));
            (tree.of.start_mono_ns, tree.of.dur_ns, parts.collect())
        }).collect();
        let mut expected: Vec<(u64, u64, Painted)> = wakeups.iter().map(|it| {
            let latency_ns = it.woke_mono_ns - it.expiry_mono_ns;
            (shown.mono_ns(it.expiry_mono_ns), latency_ns, paint(it, &activities, &scenes, bound_ns))
        }).collect();
        reported.sort();
        expected.sort();
        prop_assert_eq!(reported, expected);
    }
}

laws! {
    one_in(4);

    /// Watermarks come at any time, probes may be missing, and hosts may report little.
    #[test]
    fn the_law_holds_whatever_is_known(
        scenes in exits(),
        activities in guest_activities(),
        wakeups in vec(any_wakeup(), 1..5),
        marks in (vec(any::<bool>(), 0..30), vec(any::<bool>(), 0..60)),
        sees in any::<[bool; 6]>(),
        leaves_out_ns in 0..4_u64,
    ) {
        let (guest_facts, mut host_facts, pairs) = plain();
        let mut guest_facts = of_tasks(guest_facts);
        let [sched, irq, steal, kvm_exit, host_sched, is_guest] = sees;
        guest_facts.witnesses.sched = sched;
        guest_facts.witnesses.irq = irq;
        guest_facts.witnesses.activity_steal = steal;
        host_facts.witnesses.kvm_exit = kvm_exit;
        host_facts.witnesses.sched = host_sched;
        host_facts.host.hypervisor = is_guest.then(|| "KVM".to_owned()).map(Into::into);
        host_facts.options.threshold_ns = leaves_out_ns;
        let run = join(
            (&guest_facts, &task_stream(&wakeups, &activities, &marks.0)),
            (&host_facts, &host_stream(&scenes, &marks.1)),
            pairs,
            ALL,
        );
        obeys_the_law(&run);
    }
}
