//! What KVM usually takes of an exit, a second time and naively: each exit is held against each
//! other activity, and each percentile is read off a sorted list.

use std::cmp::Reverse;

use vmnoise_events::{Activity, ActivityKind};

/// Source of its reason if that is defined, whether it went to the VMM, whether one interrupt
/// had part.
type Class = (Option<u32>, bool, bool);

/// Exits that may be a standard: when each is over, its class, and what KVM had of it.
#[derive(Debug, Default)]
pub struct Standards(Vec<(u64, Class, u64)>);

/// Begin, and of two that begin together the longer first.
fn order(it: &Activity) -> impl Ord + use<> {
    let longer = Reverse(it.end_mono_ns);
    (it.start_mono_ns, longer, it.kind, it.source, it.steal_ns)
}

impl Standards {
    /// Those among all activities of a CPU; sources below `defined` have a name.
    pub fn of(activities: &[Activity], defined: u32) -> Standards {
        let mut sorted = activities.to_vec();
        sorted.sort_by_key(order);
        let exits = (0..sorted.len()).filter(|&at| sorted[at].kind == ActivityKind::Exit);
        Standards(
            exits
                .filter_map(|at| standard(&sorted, at, defined))
                .collect(),
        )
    }

    /// What KVM has too much of `ns` in an exit with others inside, or `None` where too few
    /// exits were over by `until`.
    fn surplus(&self, (reason, heavy, _): Class, ns: u64, until: u64) -> Option<u64> {
        let p99 = |interrupted: bool| {
            let known = self.0.iter().filter(|(over, class, _)| {
                *over <= until && *class == (reason, heavy, interrupted)
            });
            p99(known.map(|(.., ns)| *ns).collect())
        };
        Some(ns.saturating_sub(p99(false).or_else(|| p99(true))?))
    }

    /// Of the `ns` that KVM had of the exit at `place` of a gap that begins at `begin` and is
    /// overlapped by these: what is nobody's, and what is not tested.
    pub fn judge(
        &self,
        overlapping: &[&Activity],
        place: usize,
        ns: u64,
        begin: u64,
        defined: u32,
    ) -> (u64, u64) {
        let exit = overlapping[place];
        let inside =
            |it: &&&Activity| order(it) > order(exit) && it.start_mono_ns < exit.end_mono_ns;
        let count = |wanted: &dyn Fn(ActivityKind) -> bool| {
            let kinds = overlapping.iter().filter(inside).map(|it| it.kind);
            kinds.filter(|kind| wanted(*kind)).count()
        };
        let is_own = |kind| matches!(kind, ActivityKind::Exit | ActivityKind::Vmm);
        if count(&|kind| !is_own(kind)) == 0 {
            return (0, 0);
        }
        let class = (
            (exit.source.0 < defined).then_some(exit.source.0),
            count(&|kind| kind == ActivityKind::Vmm) > 0,
            true,
        );
        match self.surplus(class, ns, begin) {
            Some(surplus) => (surplus, 0),
            None => (0, ns),
        }
    }
}

fn standard(sorted: &[Activity], at: usize, defined: u32) -> Option<(u64, Class, u64)> {
    let exit = sorted[at];
    let reaches_in = |it: &Activity| it.end_mono_ns > exit.start_mono_ns;
    if exit.steal_ns > 0 || sorted[..at].iter().any(reaches_in) {
        return None;
    }
    let begins_in = |it: &&Activity| it.start_mono_ns < exit.end_mono_ns;
    let inside: Vec<&Activity> = sorted[at + 1..].iter().filter(begins_in).collect();
    let of = |wanted| inside.iter().filter(|it| it.kind == wanted).count();
    let (vmm, irqs) = (of(ActivityKind::Vmm), of(ActivityKind::Irq));
    let one_after_the_other = inside
        .windows(2)
        .all(|pair| pair[0].end_mono_ns <= pair[1].start_mono_ns);
    let all_end = inside.iter().all(|it| it.end_mono_ns <= exit.end_mono_ns);
    if vmm + irqs < inside.len() || irqs > 1 || !one_after_the_other || !all_end {
        return None;
    }
    let len = |it: &Activity| it.end_mono_ns - it.start_mono_ns;
    let taken: u64 = inside.iter().map(|it| len(it)).sum();
    let reason = (exit.source.0 < defined).then_some(exit.source.0);
    let class = (reason, vmm > 0, irqs == 1);
    // One without length is over when it begins, and known when that is over.
    let over = exit.end_mono_ns.max(exit.start_mono_ns + 1);
    Some((over, class, len(&exit) - taken))
}

/// The 99th percentile by rank, taken anew at the 100th length, and then whenever there is a
/// sixteenth more; `None` before.
pub fn p99(known: Vec<u64>) -> Option<u64> {
    let mut taken_at = 100;
    while taken_at + taken_at / 16 <= known.len() {
        taken_at += taken_at / 16;
    }
    let mut known = known.get(..taken_at)?.to_vec();
    known.sort_unstable();
    Some(known[(taken_at * 99).div_ceil(100) - 1])
}
