//! Long streams of exits, some of which contain other work.

use proptest::prelude::*;
use vmnoise_events::{Activity, ActivityKind, Event, Gap};

use super::{gap, with_steal};

/// Id of the source that no stream defines.
const UNDEFINED: u32 = 3;

/// Choices for an exit in its block of time: its delay, its length, its other work, its reason, its
/// steal time, and whether the workload observed it.
pub type Block = (u64, u64, usize, (u32, u64, bool));

/// Returns a block. Most exits have the same reason. Many of them are short and contain no other
/// work, so that KVM's usual time becomes known. Exits of reason 1, an interrupt, always contain
/// other work. Half of the exits whose other work is more than one interrupt are longer.
pub fn any_block() -> impl Strategy<Value = Block> {
    let inside = prop_oneof![3 => 0..6_usize, 2 => 6..11_usize, 2 => 11..20_usize];
    let id = prop_oneof![6 => Just(0), 3 => Just(1), 1 => 2..UNDEFINED + 1];
    let length = (6..9_u64, 0..35_u64, 0..120_u32);
    let rest = (id, 0..10_u64, any::<bool>());
    (0..10_u64, length, inside, rest).prop_map(|(after, (short, more, often), inside, rest)| {
        let inside = if rest.0 == 1 { inside.max(6) } else { inside };
        let is_long = often < if inside < 11 { 1 } else { 60 };
        let length = if is_long { short + more } else { short };
        (after, length, inside, rest)
    })
}

/// Length of a block, in ns.
pub const BLOCK: u64 = 60;

/// Returns the activities of a block, and its gap if the workload observed it.
pub fn block(
    number: usize,
    (after, length, inside, (id, steal, observed)): Block,
) -> (Vec<Activity>, Option<Gap>) {
    use ActivityKind::{Exit, Irq, Nmi, Softirq, Thread, Vmm};
    let begin = number as u64 * BLOCK + after;
    let end = begin + length;
    let reported: &[(ActivityKind, u64, u64)] = match inside {
        0..=5 => &[],
        6..=10 => &[(Irq, 1, 4)],
        11 => &[(Vmm, 2, 5)],
        12 => &[(Irq, 1, 2), (Vmm, 3, 5)],
        13 => &[(Irq, 0, 2), (Irq, 2, 5)],
        14 => &[(Irq, 1, 4), (Softirq, 4, 6)],
        15 => &[(Thread, 1, 5)],
        // These activities reach beyond the exit, take no time, or include an exit in the exit.
        16 => &[(Irq, 0, 30)],
        17 => &[(Nmi, 1, 1), (Irq, 5, 5)],
        18 => &[(Exit, 2, 5), (Irq, 3, 4)],
        _ => &[(Irq, 5, 30)],
    };
    let activity = |kind, from: u64, to: u64, steal| {
        let event = with_steal(kind, begin + from, begin + to, id, steal);
        let Event::Activity(activity) = event else {
            unreachable!()
        };
        activity
    };
    let mut all = vec![activity(Exit, 0, length, steal.saturating_sub(8))];
    all.extend(
        reported
            .iter()
            .map(|&(kind, from, to)| activity(kind, from, to, 0)),
    );
    let gap = observed.then(|| Gap {
        reloads: u32::from(steal == 3),
        ..gap(begin.saturating_sub(1), end + 2)
    });
    (all, gap)
}
