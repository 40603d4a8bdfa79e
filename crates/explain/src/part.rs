//! Who took how much of a gap, a wake-up or an exit.

use std::cmp::Reverse;

use vmnoise_events::{Share, SourceId};

use crate::phase::Phase;

/// What one source (or a residual) took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// In which phase of a wake-up; `None` of all else, and where a step was not seen that
    /// would tell.
    pub phase: Option<Phase>,
    /// Under which name it is booked.
    pub share: Share,
    /// Who it was; `None` where nobody is named (steal, residual, a source the
    /// stream never defined).
    pub source: Option<SourceId>,
    /// The CPU of the host on which that was, where the host's recording says so; `None` of the
    /// guest's own and of what belongs to the vCPU wherever it is.
    pub host_cpu: Option<u32>,
    /// Net time, in nanoseconds; never 0.
    pub ns: u64,
    /// How many activities it adds up; 0 for steal and the residual, which are
    /// differences and no activities.
    pub count: u32,
}

impl Part {
    /// What one activity had.
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

    /// A difference: nobody's.
    pub(crate) fn of_nobody(share: Share, ns: u64) -> Part {
        Part {
            count: 0,
            ..Part::of_one(share, None, ns)
        }
    }

    /// Of parts that agree in this, one is made.
    pub(crate) fn who(&self) -> impl Ord + use<> {
        (self.phase, self.taker())
    }

    fn taker(&self) -> impl Ord + use<> {
        (self.share, self.source, self.host_cpu)
    }
}

/// Adds up what one source had of one phase on one CPU of a host, and puts all in the order of
/// phases, shares and sources.
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

/// Adds up, and puts the largest of each phase first; equal ones are in the order of shares, then
/// of sources.
pub(crate) fn settle(parts: &mut Vec<Part>) {
    // Gaps are many and have no phases: their parts are compared without.
    if parts.iter().all(|part| part.phase.is_none()) {
        add_up_by(parts, Part::taker);
        parts.sort_by_key(|part| Reverse(part.ns));
    } else {
        add_up(parts);
        largest_first(parts);
    }
}

/// Puts the largest of each phase first; equal ones stay in their order.
pub(crate) fn largest_first(parts: &mut [Part]) {
    parts.sort_by_key(|part| (part.phase, Reverse(part.ns)));
}

/// These parts whichever CPU of a host they were on, the largest of each phase first.
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
