//! What periodic tasks in a guest prove: at the instants of their steps the CPU was in the
//! guest, so no exit of its vCPU may lie there.

use super::crossing::Crossing;
use super::evidence::{Evidence, Verdict};

/// With fewer instants expected inside of exits by chance, nothing is said.
const ENOUGH: f64 = 20.0;
/// One in so many of those may be there all the same: an event was told wrong.
const STRAY_PART: f64 = 20.0;
/// So many more than one in ten of them may be there before that contradicts: bad luck among few.
const STRAYS: f64 = 2.0;
/// The least shift of the exits that is tried.
const LEAST_SHIFT_NS: u64 = 100;

/// Lays exits (begin and end on the host's CLOCK_MONOTONIC) over instants of the guest's, which
/// are sorted, and asks how far the exits could be shifted, up to `reach_ns`. By the right clock
/// no instant lies in an exit; by a wrong one, as many as chance brings.
pub(super) fn examine(
    exits: &[(u64, u64)],
    crossing: &Crossing<'_>,
    instants: &[u64],
    reach_ns: u64,
) -> Evidence {
    let away = away(exits, crossing);
    let (Some(first), Some(last)) = (away.first(), away.last()) else {
        return Evidence::nothing();
    };
    let (from_ns, to_ns) = (first.0, last.1);
    let begun = instants.partition_point(|at_ns| *at_ns < from_ns);
    let ended = instants.partition_point(|at_ns| *at_ns <= to_ns);
    let instants = &instants[begun..ended];
    let away_ns: u64 = away.iter().map(|(from, to)| to - from).sum();
    let away_part = away_ns as f64 / (to_ns - from_ns).max(1) as f64;
    let inside = inside(instants, &away, 0) as u64;
    let expected = instants.len() as f64 * away_part;
    let wrong = inside as f64;
    let verdict = if expected < ENOUGH {
        Verdict::Open
    } else if wrong * 10.0 <= expected {
        Verdict::Confirmed
    } else if (wrong - STRAYS) * 10.0 <= expected {
        Verdict::Open
    } else {
        Verdict::Contradicted
    };
    let agrees = |shift_ns| self::inside(instants, &away, shift_ns) as f64 * STRAY_PART <= expected;
    Evidence {
        tested: instants.len() as u64,
        inside: instants.len() as u64 - inside,
        chance: 1.0 - away_part,
        slack_ns: (expected >= ENOUGH).then(|| {
            let widest = |sign: i64| sign * widest_ns(reach_ns, |ns| agrees(sign * ns));
            (widest(-1), widest(1))
        }),
        verdict,
    }
}

/// The exits on the guest's CLOCK_MONOTONIC, in order and apart, without what its clock may be
/// wrong by.
fn away(exits: &[(u64, u64)], crossing: &Crossing<'_>) -> Vec<(u64, u64)> {
    let margin_ns = crossing.host.bound_ns();
    let margin_ns = margin_ns.saturating_add(crossing.guest.bound_ns());
    let laid = exits.iter().filter_map(|(start_ns, end_ns)| {
        let (line, start_tsc) = crossing.guest_tsc(*start_ns)?;
        let (end_line, end_tsc) = crossing.guest_tsc(*end_ns)?;
        let from_ns = crossing.guest.mono_ns(start_tsc)?.checked_add(margin_ns)?;
        let to_ns = crossing.guest.mono_ns(end_tsc)?.checked_sub(margin_ns)?;
        (line == end_line && from_ns < to_ns).then_some((from_ns, to_ns))
    });
    let mut laid: Vec<(u64, u64)> = laid.collect();
    laid.sort_unstable();
    laid.dedup_by(|next, last| {
        let overlaps = next.0 <= last.1;
        if overlaps {
            last.1 = last.1.max(next.1);
        }
        overlaps
    });
    laid
}

/// How many instants lie in an exit when all exits are shifted by this much. Both are sorted.
fn inside(instants: &[u64], away: &[(u64, u64)], shift_ns: i64) -> usize {
    let mut exits = away.iter().peekable();
    let is_in = |at_ns: &&u64| {
        let at_ns = at_ns.saturating_add_signed(shift_ns.saturating_neg());
        while exits.next_if(|(_, to_ns)| *to_ns <= at_ns).is_some() {}
        exits.peek().is_some_and(|(from_ns, _)| *from_ns < at_ns)
    };
    instants.iter().filter(is_in).count()
}

/// The widest shift that agrees, and what lies between it and the next one that was tried.
fn widest_ns(reach_ns: u64, agrees: impl Fn(i64) -> bool) -> i64 {
    let tried = std::iter::successors(Some(LEAST_SHIFT_NS), |ns| Some(ns + ns / 4));
    let mut widest_ns = LEAST_SHIFT_NS;
    let mut last_agrees = true;
    for ns in tried.take_while(|ns| *ns <= reach_ns) {
        if last_agrees {
            widest_ns = ns;
        }
        last_agrees = agrees(ns.cast_signed());
    }
    if last_agrees {
        widest_ns = reach_ns.max(LEAST_SHIFT_NS);
    }
    widest_ns.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_in_an_exit_or_beside_it() {
        let away = [(100, 200), (300, 310)];
        assert_eq!(inside(&[100, 101, 199, 200, 305], &away, 0), 3);
        // All exits 50 later.
        assert_eq!(inside(&[101, 151, 249, 250, 351], &away, 50), 3);
        assert_eq!(inside(&[101, 149], &away, -50), 2);
        assert_eq!(inside(&[], &away, 0), 0);
        assert_eq!(inside(&[5], &[], 0), 0);
    }

    #[test]
    fn the_widest_shift_reaches_to_the_next_that_was_tried() {
        assert_eq!(widest_ns(10_000, |_| false), 100);
        assert_eq!(widest_ns(10_000, |ns| ns <= 150), 156);
        assert_eq!(widest_ns(10_000, |_| true), 10_000);
        // What agrees again is as good.
        let far = widest_ns(10_000, |ns| ns <= 150 || (3_000..5_000).contains(&ns));
        assert!(far >= 5_000, "{far}");
    }
}
