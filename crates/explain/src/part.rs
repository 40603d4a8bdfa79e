//! Parts of a gap, a wake-up or an exit, by culprit.

use std::cmp::Reverse;

use vmnoise_events::{Share, SourceId};

use crate::phase::Phase;

/// Time that one source took, or a residual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Phase of a wake-up; `None` for other intervals, or if an event that delimits the phase is
    /// missing.
    pub phase: Option<Phase>,
    /// Share to which the time belongs.
    pub share: Share,
    /// Source of the time. `None` for steal and the residual, which have no source, or if the
    /// stream never defined the source.
    pub source: Option<SourceId>,
    /// CPU of the host on which the source ran, as the host's recording shows. `None` for the
    /// guest's own parts, and for parts that belong to the vCPU itself on any CPU.
    pub host_cpu: Option<u32>,
    /// Net time, in nanoseconds; never 0.
    pub ns: u64,
    /// Number of activities in the sum; 0 for steal and the residual, which are differences and not
    /// activities.
    pub count: u32,
}

impl Part {
    /// Creates the part of one activity.
    pub(crate) fn of_one(share: Share, source: Option<SourceId>, ns: u64) -> Part {
        Part {
            phase: None,
            share,
            source,
            host_cpu: None,
            ns,
            count: 1,
        }
    }

    /// Creates a part that is a difference of times and has no source.
    pub(crate) fn of_nobody(share: Share, ns: u64) -> Part {
        Part {
            count: 0,
            ..Part::of_one(share, None, ns)
        }
    }

    /// Returns the key by which parts are merged: phase, share, source and host CPU.
    pub(crate) fn who(&self) -> impl Ord + use<> {
        (self.phase, self.taker())
    }

    fn taker(&self) -> impl Ord + use<> {
        (self.share, self.source, self.host_cpu)
    }
}

/// Adds up parts with the same phase, share, source and host CPU, and sorts them in this order.
pub(crate) fn add_up(parts: &mut Vec<Part>) {
    add_up_by(parts, Part::who);
}

fn add_up_by<K: Ord>(parts: &mut Vec<Part>, who: impl Fn(&Part) -> K) {
    parts.sort_unstable_by_key(&who);
    parts.dedup_by(|piece, sum| {
        let same = who(piece) == who(sum);
        if same {
            sum.ns += piece.ns;
            sum.count = sum.count.saturating_add(piece.count);
        }
        same
    });
}

/// Adds up parts with the same phase, share, source and host CPU. Sorts the largest of each phase
/// first. Parts of equal size are ordered by share, then by source.
pub(crate) fn settle(parts: &mut Vec<Part>) {
    // Most intervals are gaps without phases. Their parts are compared without the phase, which is
    // faster.
    if parts.iter().all(|part| part.phase.is_none()) {
        add_up_by(parts, Part::taker);
        parts.sort_by_key(|part| Reverse(part.ns));
    } else {
        add_up(parts);
        largest_first(parts);
    }
}

/// Sorts by phase, the largest part of each phase first. Parts of equal size keep their order.
pub(crate) fn largest_first(parts: &mut [Part]) {
    parts.sort_by_key(|part| (part.phase, Reverse(part.ns)));
}

/// Adds up parts that differ only in the host's CPU. Returns the largest part of each phase first.
pub fn by_source(parts: &[Part]) -> Vec<Part> {
    let on_any = |part: &Part| Part {
        host_cpu: None,
        ..*part
    };
    let mut parts: Vec<Part> = parts.iter().map(on_any).collect();
    settle(&mut parts);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_source_on_two_cpus_of_a_host_is_two_parts_and_may_be_one() {
        let part = |source, host_cpu, ns| Part {
            host_cpu,
            ..Part::of_one(Share::Preempted, Some(SourceId(source)), ns)
        };
        let mut parts = vec![
            part(7, Some(3), 40),
            part(8, Some(3), 60),
            part(7, Some(1), 30),
            part(7, Some(3), 10),
        ];
        add_up(&mut parts);
        let reported = |parts: &[Part]| -> Vec<(u32, Option<u32>, u64, u32)> {
            let parts = parts.iter();
            let reported =
                parts.map(|it| (it.source.map_or(0, |id| id.0), it.host_cpu, it.ns, it.count));
            reported.collect()
        };
        let apart = [
            (7, Some(1), 30, 1),
            (7, Some(3), 50, 2),
            (8, Some(3), 60, 1),
        ];
        assert_eq!(reported(&parts), apart);
        assert_eq!(
            reported(&by_source(&parts)),
            [(7, None, 80, 3), (8, None, 60, 1)]
        );
    }

    #[test]
    fn each_phase_has_its_own_parts() {
        let part = |phase, ns| Part {
            phase,
            ..Part::of_one(Share::Irq, Some(SourceId(7)), ns)
        };
        let mut parts = vec![
            part(Some(Phase::Return), 5),
            part(Some(Phase::Irq), 1),
            part(None, 2),
            part(Some(Phase::Return), 6),
        ];
        settle(&mut parts);
        let reported: Vec<(Option<Phase>, u64)> =
            parts.iter().map(|it| (it.phase, it.ns)).collect();
        let expected = [(None, 2), (Some(Phase::Irq), 1), (Some(Phase::Return), 11)];
        assert_eq!(reported, expected);
    }
}
