//! Tests how KVM's time in exits is compared with its usual time. The streams are long enough to
//! learn the usual time. An independent oracle assigns each nanosecond of an exit, and keeps every
//! length.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::holds_for;
use crate::streams::kvm_standards::p99;
use crate::streams::vcpus::{CPUID, ExitScene, INTR, IO, exit_of, explain, facts, vcpu};
use proptest::collection::vec;
use proptest::prelude::*;
use vmnoise_events::*;

/// Time from the start of one exit to the start of the next.
const APART_NS: u64 = 100;

/// Choices for an exit: its reason, its length, a number that rarely makes it longer, and its other
/// work.
type Choice = (u64, u64, u8, u8);

/// Returns mostly short exits without other work. Exits for an interrupt always contain other work.
fn any_exits() -> impl Strategy<Value = Vec<Choice>> {
    let code = prop_oneof![6 => Just(CPUID), 3 => Just(INTR), 1 => Just(IO)];
    let others = prop_oneof![6 => Just(0_u8), 3 => Just(1), 2 => 2..7_u8];
    vec((code, 12..18_u64, 0..160_u8, others), 1_000..1_300)
}

fn scene(number: usize, (code, length, chance, others): Choice) -> ExitScene {
    use ActivityKind::{Irq, Nmi, Softirq, Thread};
    let start = 1_000 + number as u64 * APART_NS;
    let length = if chance == 0 { length + 40 } else { length };
    let mut scene = ExitScene::new(code, start, start + length);
    scene.names = ["timer:236", "TIMER:1", "a:1", "NMI"]
        .map(String::from)
        .to_vec();
    if code == IO {
        scene = scene.kept(VcpuIntervalKind::Vmm, start + 9, start + 11);
    }
    let others = if code == INTR { others.max(1) } else { others };
    let timer =
        |scene: ExitScene, from| scene.host(1, Irq, "timer:236", start + from, start + from + 2);
    match others {
        0 => scene,
        1 => timer(scene, 2),
        2 => timer(timer(scene, 0), 5),
        3 => timer(scene, 0).host(1, Softirq, "TIMER:1", start + 2, start + 4),
        4 => scene
            .kept(VcpuIntervalKind::Waiting, start + 3, start + 6)
            .host(1, Thread, "a:1", start + 3, start + 6),
        5 => scene.kept(VcpuIntervalKind::Blocked, start + 3, start + 6),
        _ => scene.host(1, Nmi, "NMI", start + 1, start + 3),
    }
}

/// Returns all events in the order of their ends.
fn events(scenes: &[ExitScene]) -> Vec<Event> {
    let names = scenes[0].names.iter().enumerate();
    let mut events: Vec<Event> = names
        .map(|(id, name)| crate::streams::source(id as u32, name))
        .collect();
    events.push(Event::Vcpu(vcpu(0)));
    for scene in scenes {
        events.extend(scene.activities.iter().map(|it| Event::Activity(*it)));
        events.extend(scene.intervals.iter().map(|it| Event::VcpuInterval(*it)));
        events.push(exit_of(0, scene.exit()));
    }
    events
}

/// KVM's times in exits with at most one interrupt and no other work. They are grouped by reason,
/// by whether the exit went to the VMM, and by the number of interrupts.
type Seen = BTreeMap<(u64, bool, u32), Vec<u64>>;

/// Returns KVM's time above its usual time in all these exits, and KVM's time without an upper
/// bound.
fn held(scenes: &[ExitScene]) -> (u64, u64) {
    let mut seen = Seen::new();
    let (mut surplus, mut unbounded) = (0, 0);
    for scene in scenes {
        let (exit, owned) = (scene.exit(), scene.painted());
        let others: Vec<Share> = owned.keys().map(|(share, _)| *share).collect();
        let own = |share: &Share| matches!(share, Share::Kvm | Share::Vmm | Share::Halted);
        let others: Vec<Share> = others.into_iter().filter(|share| !own(share)).collect();
        let irqs = scene
            .activities
            .iter()
            .filter(|it| it.kind == ActivityKind::Irq);
        let alone = others.iter().all(|share| *share == Share::HostIrq);
        let interrupts = irqs.count() as u32;
        let kvm_ns = exit.split[Share::Kvm];
        if !others.is_empty() {
            let usual = |interrupts| p99(seen.get(&(scene.code, exit.heavy, interrupts))?.clone());
            match usual(0).or_else(|| usual(1)) {
                Some(usual) => surplus += kvm_ns.saturating_sub(usual),
                None => unbounded += kvm_ns,
            }
        }
        if alone && interrupts <= 1 {
            let class = (scene.code, exit.heavy, interrupts);
            seen.entry(class).or_default().push(kvm_ns);
        }
    }
    (surplus, unbounded)
}

#[test]
fn what_kvm_has_too_much_is_as_painted() {
    let tested = Cell::new((0_u64, 0_u64));
    holds_for(128, any_exits(), |choices| {
        let scenes = choices.into_iter().enumerate();
        let scenes: Vec<ExitScene> = scenes.map(|(number, it)| scene(number, it)).collect();
        let (_, run) = explain(&facts(), &events(&scenes));
        let (surplus, unbounded) = held(&scenes);
        prop_assert_eq!(run.surplus_kvm_ns, Some(surplus));
        prop_assert_eq!(run.unbounded_kvm_ns, Some(unbounded));
        let (streams, with_both) = tested.get();
        let has_both = surplus > 0 && unbounded > 0;
        tested.set((streams + 1, with_both + u64::from(has_both)));
        Ok(())
    });
    let (streams, with_both) = tested.get();
    // A stream has some 7 exits that are longer than usual, and half of them contain other work. A
    // stream without such an exit is rare.
    assert!(with_both * 2 > streams, "{with_both} of {streams}");
}
