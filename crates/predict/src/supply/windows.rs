//! Search over all windows of one run, exact and in one pass.
//!
//! Move a window to the right. At its left edge it loses time of a gap only if less of that gap is
//! inside than was taken in it. So a window with most taken time can be moved without losing any,
//! until one of two things happens: the taken time of some gap is just inside at its left edge, or
//! the run ends at its right edge. It is enough to visit these windows.
//!
//! Where in a gap time was taken is known only if all of the gap was. Otherwise the time is where
//! it does most harm: at the end of the gap for a window that begins in it, and at its begin for a
//! window that ends in it.

use std::ops::Range;

use crate::taken::{BLOCK, TakenTime};

/// Window of some length in which most was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worst {
    /// Begin, CLOCK_MONOTONIC in nanoseconds.
    pub begin_ns: u64,
    /// Time taken in it, in nanoseconds.
    pub taken_ns: u64,
}

/// Returns the window of this length in which most was taken; of equal windows the first. `None` if
/// the run is shorter.
///
/// Windows that begin in one block of gaps contain no more than all gaps from the block's first one
/// to the last one that begins in any of these windows. If this is no more than the largest result
/// so far, none of these windows is visited. For lengths that contain many gaps, most windows are
/// skipped.
pub fn worst_window(taken: &TakenTime<'_>, length_ns: u64) -> Option<Worst> {
    if length_ns > taken.span_ns() {
        return None;
    }
    let mut search = Search {
        length_ns,
        last_begin_ns: taken.to_ns - length_ns,
        worst: Worst {
            begin_ns: taken.from_ns,
            taken_ns: 0,
        },
        taken,
    };
    let gaps = taken.begins_ns.len();
    let blocks = gaps.div_ceil(BLOCK);
    let at_once = blocks_at_once(gaps as u64, length_ns, taken.span_ns());
    let (mut past_all, mut open) = (0, None);
    for block in (0..blocks).step_by(at_once) {
        let firsts = block * BLOCK..gaps.min((block + at_once) * BLOCK);
        let latest_end_ns = search.begin_ns(firsts.end - 1).saturating_add(length_ns);
        while past_all < blocks && taken.begins_ns[past_all * BLOCK] < latest_end_ns {
            past_all = (past_all + at_once).min(blocks);
        }
        if search.worst.taken_ns == length_ns {
            return Some(search.worst);
        }
        open = match taken.in_blocks_ns(block..past_all.max(block)) > search.worst.taken_ns {
            true => search.look_at(firsts, open),
            false => None,
        };
    }
    let held_ns = held_at_the_end(taken, length_ns);
    if held_ns > search.worst.taken_ns {
        search.worst = Worst {
            begin_ns: search.last_begin_ns,
            taken_ns: held_ns,
        };
    }
    Some(search.worst)
}

/// Returns the number of blocks whose first gaps are visited together. Windows of n gaps differ by
/// the order of the square root of n gaps. So a bound that is too high by a small part of that
/// still excludes most of them.
fn blocks_at_once(gaps: u64, length_ns: u64, span_ns: u64) -> usize {
    let in_a_window = u128::from(gaps) * u128::from(length_ns) / u128::from(span_ns.max(1));
    (in_a_window.isqrt() as usize / (8 * BLOCK)).max(1)
}

/// Search over windows of one length.
struct Search<'a> {
    taken: &'a TakenTime<'a>,
    length_ns: u64,
    last_begin_ns: u64,
    worst: Worst,
}

/// State of a search: the first gap that begins after the window, and the time taken in the gaps of
/// the window before it.
type Open = (usize, u64);

impl Search<'_> {
    /// Returns the begin of the window for which the time taken in this gap is just inside.
    fn begin_ns(&self, gap: usize) -> u64 {
        let taken = self.taken;
        taken.begins_ns[gap] + taken.lengths_ns[gap] - taken.taken_ns()[gap]
    }

    /// Visits windows that begin in these gaps. Each one uses the state of the one before.
    fn look_at(&mut self, firsts: Range<usize>, open: Option<Open>) -> Option<Open> {
        let (begins_ns, taken_ns) = (self.taken.begins_ns, self.taken.taken_ns());
        let lengths_ns = self.taken.lengths_ns;
        let (mut next, mut inside_ns) = open.unwrap_or_else(|| self.open(firsts.start));
        for first in firsts {
            let begin_ns = begins_ns[first] + lengths_ns[first] - taken_ns[first];
            if begin_ns > self.last_begin_ns {
                break;
            }
            let end_ns = begin_ns + self.length_ns;
            while next < begins_ns.len() && begins_ns[next] < end_ns {
                inside_ns += taken_ns[next];
                next += 1;
            }
            if next > first {
                let last = next - 1;
                let room_ns = end_ns - begins_ns[last].max(begin_ns);
                let held_ns = inside_ns - taken_ns[last].saturating_sub(room_ns);
                if held_ns > self.worst.taken_ns {
                    self.worst = Worst {
                        begin_ns,
                        taken_ns: held_ns,
                    };
                }
                inside_ns -= taken_ns[first];
            } else {
                next = first + 1;
            }
        }
        Some((next, inside_ns))
    }

    /// Returns the last block that begins in the window of a block's first gap, and the time taken
    /// before that block.
    fn open(&self, first: usize) -> Open {
        let end_ns = self.begin_ns(first).saturating_add(self.length_ns);
        let block = first / BLOCK;
        let begins_in_it = |of: usize| self.taken.begins_ns[of * BLOCK] < end_ns;
        let blocks = self.taken.begins_ns.len().div_ceil(BLOCK) - block;
        let (mut reaches, mut ends) = (0, blocks);
        while ends - reaches > 1 {
            let middle = reaches + (ends - reaches) / 2;
            match begins_in_it(block + middle) {
                true => reaches = middle,
                false => ends = middle,
            }
        }
        let last = block + reaches;
        (last * BLOCK, self.taken.in_blocks_ns(block..last))
    }
}

/// Returns the time taken in the last window of this length.
fn held_at_the_end(taken: &TakenTime<'_>, length_ns: u64) -> u64 {
    let begin_ns = taken.to_ns - length_ns;
    let gaps = taken.begins_ns.len();
    let first = taken.begins_ns.partition_point(|it| *it < begin_ns);
    // The gap before this one may reach into the window.
    let cut_ns = first.checked_sub(1).map_or(0, |cut| {
        let end_ns = taken.begins_ns[cut] + taken.lengths_ns[cut];
        taken.taken_ns()[cut].min(end_ns.saturating_sub(begin_ns))
    });
    cut_ns + taken.in_gaps_ns(first..gaps)
}

/// Returns the time taken in consecutive windows of this length, from the run's begin. If a gap was
/// taken only in part, a window counts as much of it as may be in the window.
pub fn taken_in_turn(taken: &TakenTime<'_>, length_ns: u64) -> impl Iterator<Item = u64> {
    let length_ns = length_ns.max(1);
    let gaps = taken.begins_ns.iter().zip(taken.lengths_ns);
    let gaps = gaps.zip(taken.taken_ns());
    let mut gaps = gaps.map(|((begin_ns, ns), taken_ns)| (*begin_ns, begin_ns + ns, *taken_ns));
    let mut open: Option<(u64, u64, u64)> = None;
    (0..taken.span_ns() / length_ns).map(move |nth| {
        let begin_ns = taken.from_ns + nth * length_ns;
        let end_ns = begin_ns + length_ns;
        let mut held_ns = 0;
        while let Some((from_ns, to_ns, taken_ns)) = open.take().or_else(|| gaps.next()) {
            let inside_ns = end_ns.min(to_ns).saturating_sub(begin_ns.max(from_ns));
            held_ns += inside_ns.min(taken_ns);
            if to_ns > end_ns {
                open = Some((from_ns, to_ns, taken_ns));
                break;
            }
        }
        held_ns
    })
}

/// Returns the least length for which every window left at least this time; `None` if the whole run
/// left less.
pub fn longest_for(taken: &TakenTime<'_>, supply_ns: u64) -> Option<u64> {
    let (begins_ns, lengths_ns, taken_ns) = (taken.begins_ns, taken.lengths_ns, taken.taken_ns());
    let mut longest_ns = back_from_the_end(taken, supply_ns)?;
    let (mut next, mut inside_ns) = (0, 0);
    for first in 0..begins_ns.len() {
        let begin_ns = begins_ns[first] + lengths_ns[first] - taken_ns[first];
        // The time that is left until a gap begins is less than requested, so the window must also
        // contain the time that the gap takes.
        while next < begins_ns.len()
            && begins_ns[next].saturating_sub(begin_ns) < supply_ns.saturating_add(inside_ns)
        {
            inside_ns += taken_ns[next];
            next += 1;
        }
        let length_ns = supply_ns.saturating_add(inside_ns);
        if length_ns > taken.to_ns.saturating_sub(begin_ns) {
            break;
        }
        longest_ns = longest_ns.max(length_ns);
        if next > first {
            inside_ns -= taken_ns[first];
        } else {
            next = first + 1;
        }
    }
    Some(longest_ns)
}

/// Returns the length of the last window that left this time.
fn back_from_the_end(taken: &TakenTime<'_>, supply_ns: u64) -> Option<u64> {
    let mut inside_ns = 0;
    for gap in (0..taken.begins_ns.len()).rev() {
        let end_ns = taken.begins_ns[gap] + taken.lengths_ns[gap];
        if taken.to_ns - end_ns >= supply_ns.saturating_add(inside_ns) {
            break;
        }
        inside_ns += taken.taken_ns()[gap];
    }
    let length_ns = supply_ns.saturating_add(inside_ns);
    (length_ns <= taken.span_ns()).then_some(length_ns)
}
