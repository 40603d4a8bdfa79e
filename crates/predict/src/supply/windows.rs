//! Exact search over all windows of one run, in one pass.
//!
//! Imagine a window that moves to the right. Its left edge loses time of a gap only when less of
//! the gap is inside than was taken in the gap. So a window with the most taken time can move
//! without a loss until one of two things happens. Either the taken time of some gap begins exactly
//! at its left edge, or its right edge reaches the end of the run. The search visits only these
//! windows.
//!
//! If only a part of a gap was taken, the position of this part is unknown. The search assumes the
//! worst position: the end of the gap for a window that begins in the gap, and the begin of the gap
//! for a window that ends in it.

use std::ops::Range;

use crate::taken::{BLOCK, TakenTime};

/// Window of a given length in which most time was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worst {
    /// Begin of the window, CLOCK_MONOTONIC in nanoseconds.
    pub begin_ns: u64,
    /// Time that was taken in the window, in nanoseconds.
    pub taken_ns: u64,
}

/// Returns the window of this length in which most time was taken; if several windows are equal,
/// the first window. Returns `None` if the run is shorter than the window.
///
/// The search groups gaps into blocks. Windows that begin in a block contain at most all gaps from
/// the first gap of the block to the last gap of the block's last window. If these gaps took no
/// more time than the best window so far, the search skips the whole block. For windows that
/// contain many gaps, it skips most blocks.
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

/// Returns the number of blocks that the search visits or skips together. The taken times of
/// windows with n gaps differ by about the square root of n gaps. So a bound that is too high by a
/// small fraction of this difference still excludes most windows.
fn blocks_at_once(gaps: u64, length_ns: u64, span_ns: u64) -> usize {
    let in_a_window = u128::from(gaps) * u128::from(length_ns) / u128::from(span_ns.max(1));
    (in_a_window.isqrt() as usize / (8 * BLOCK)).max(1)
}

/// State of a search for one window length.
struct Search<'a> {
    taken: &'a TakenTime<'a>,
    length_ns: u64,
    last_begin_ns: u64,
    worst: Worst,
}

/// Index of the first gap that begins after the current window, and the time taken in the gaps of
/// the window before this gap.
type Open = (usize, u64);

impl Search<'_> {
    /// Returns the begin of the window that contains exactly the time taken in this gap, and no
    /// earlier time of the gap.
    fn begin_ns(&self, gap: usize) -> u64 {
        let taken = self.taken;
        taken.begins_ns[gap] + taken.lengths_ns[gap] - taken.taken_ns()[gap]
    }

    /// Visits the windows that begin in these gaps. Each window uses the state of the previous
    /// window.
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

    /// Returns the index of the first gap of the last block that begins in a window, and the time
    /// taken in the window before that block. The window begins in the gap `first`.
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

/// Returns the time taken in the window of this length that ends with the run, in nanoseconds.
fn held_at_the_end(taken: &TakenTime<'_>, length_ns: u64) -> u64 {
    let begin_ns = taken.to_ns - length_ns;
    let gaps = taken.begins_ns.len();
    let first = taken.begins_ns.partition_point(|it| *it < begin_ns);
    // The gap before the gap `first` may reach into the window.
    let cut_ns = first.checked_sub(1).map_or(0, |cut| {
        let end_ns = taken.begins_ns[cut] + taken.lengths_ns[cut];
        taken.taken_ns()[cut].min(end_ns.saturating_sub(begin_ns))
    });
    cut_ns + taken.in_gaps_ns(first..gaps)
}

/// Returns the time taken in each of the consecutive windows of this length, from the begin of the
/// run. If only a part of a gap was taken, a window counts as much of this part as the window may
/// contain.
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

/// Returns the smallest window length for which at least `supply_ns` of every window were not taken;
/// `None` if even the whole run has less time that was not taken.
pub fn longest_for(taken: &TakenTime<'_>, supply_ns: u64) -> Option<u64> {
    let (begins_ns, lengths_ns, taken_ns) = (taken.begins_ns, taken.lengths_ns, taken.taken_ns());
    let mut longest_ns = back_from_the_end(taken, supply_ns)?;
    let (mut next, mut inside_ns) = (0, 0);
    for first in 0..begins_ns.len() {
        let begin_ns = begins_ns[first] + lengths_ns[first] - taken_ns[first];
        // If less than the requested time is left until a gap begins, the window must also contain
        // the time that this gap takes.
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

/// Returns the length of the shortest window at the end of the run that left `supply_ns`.
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
