//! KVM's usual time in exits, computed by a second, naive implementation. It compares each exit
//! with each other activity, and reads each percentile from a sorted list.

use std::cmp::Reverse;

use vmnoise_events::{Activity, ActivityKind};

/// Class of an exit: the source of its reason if it is defined, whether the exit went to the VMM,
/// and whether it contains one interrupt.
type Class = (Option<u32>, bool, bool);

/// Exits that show KVM's usual time: the end of each exit, its class, and KVM's time in it.
#[derive(Debug, Default)]
pub struct Standards(Vec<(u64, Class, u64)>);

/// Returns the sort key of an activity: by start, and the longer first if two start together.
fn order(it: &Activity) -> impl Ord + use<> {
    let longer = Reverse(it.end_mono_ns);
    (it.start_mono_ns, longer, it.kind, it.source, it.steal_ns)
}

impl Standards {
    /// Finds the exits that show KVM's usual time among all activities of a CPU. Sources below
    /// `defined` have a name.
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

    /// Returns the part of `ns` that exceeds KVM's usual time in this class; `None` if too few
    /// exits had ended by `until`.
    fn surplus(&self, (reason, heavy, _): Class, ns: u64, until: u64) -> Option<u64> {
        let p99 = |interrupted: bool| {
            let known = self.0.iter().filter(|(over, class, _)| {
                *over <= until && *class == (reason, heavy, interrupted)
            });
            p99(known.map(|(.., ns)| *ns).collect())
        };
        Some(ns.saturating_sub(p99(false).or_else(|| p99(true))?))
    }

    /// Judges KVM's time `ns` in the exit at `place` of `overlapping`, the activities that overlap
    /// a gap. The gap begins at `begin`. Returns the time that becomes residual, and the time
    /// without an upper bound.
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
    // An exit without length ends when it begins, and is known one nanosecond later.
    let over = exit.end_mono_ns.max(exit.start_mono_ns + 1);
    Some((over, class, len(&exit) - taken))
}

/// Returns the 99th percentile by rank; `None` with fewer than 100 lengths. It is computed at the
/// 100th length, and again whenever the number of lengths has grown by a sixteenth.
pub fn p99(known: Vec<u64>) -> Option<u64> {
    let mut taken_at = 100;
    while taken_at + taken_at / 16 <= known.len() {
        taken_at += taken_at / 16;
    }
    let mut known = known.get(..taken_at)?.to_vec();
    known.sort_unstable();
    Some(known[(taken_at * 99).div_ceil(100) - 1])
}
