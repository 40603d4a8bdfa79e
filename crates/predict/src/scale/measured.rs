//! What the CPUs of one host say of steps of one length.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::delays::{Delays, Tally};
use super::sweep::{Piece, sweep};
use crate::tail::LARGEST;
use crate::taken::Taken;

/// Number of blocks of equal length into which a run is cut; a band leaves out one after the other.
pub(super) const BLOCKS: u64 = 20;
/// A block has at least so many steps; otherwise what reaches from one block into the next is no
/// trifle, and blocks are not independent.
const STEPS_OF_A_BLOCK: u64 = 20;

/// Delays of a host.
#[derive(Debug)]
pub(super) struct Measured {
    /// All moments at which a step may begin.
    pub(super) delays: Delays,
    /// The same, block by block; none where the run is too short for blocks.
    pub(super) blocks: Vec<Delays>,
    /// Length of the host's recording, in nanoseconds.
    pub(super) span_ns: u64,
    /// How many steps follow one another in the run.
    pub(super) steps: u64,
    /// Largest delays of these steps, in nanoseconds, for the fit of a tail.
    pub(super) largest_ns: Vec<u64>,
    /// The largest delay of any step, nanoseconds.
    pub(super) longest_ns: u64,
}

/// One step after the other, as if the host were alone.
#[derive(Debug)]
struct Chain {
    step_ns: u64,
    next_ns: u64,
    steps: u64,
    largest_ns: BinaryHeap<Reverse<u64>>,
}

impl Chain {
    fn pass(&mut self, piece: &Piece) {
        let end_ns = piece.begin_ns + piece.length_ns;
        while self.next_ns < end_ns {
            self.next_ns = self.next_ns.max(piece.begin_ns);
            let delay_ns = piece.delay_at_ns(self.next_ns);
            let each_ns = self.step_ns + delay_ns;
            // All that begin in it are alike, or there is but one.
            let steps = match piece.falls {
                true => 1,
                false => (end_ns - self.next_ns).div_ceil(each_ns),
            };
            self.next_ns += steps * each_ns;
            self.steps += steps;
            self.keep(delay_ns, steps);
        }
    }

    fn keep(&mut self, delay_ns: u64, times: u64) {
        for _ in 0..times.min(LARGEST as u64) {
            if self.largest_ns.len() == LARGEST {
                match self.largest_ns.peek() {
                    Some(Reverse(least_ns)) if *least_ns < delay_ns => self.largest_ns.pop(),
                    _ => return,
                };
            }
            self.largest_ns.push(Reverse(delay_ns));
        }
    }
}

/// Looks at all moments at which a step of this length may begin on these CPUs. `None` where the
/// run is shorter than a step.
pub(super) fn measure(cpus: &[Taken<'_>], step_ns: u64, in_blocks: bool) -> Option<Measured> {
    let from_ns = cpus.iter().map(|taken| taken.from_ns).max()?;
    let to_ns = cpus.iter().map(|taken| taken.to_ns).min()?;
    // No machine is up for longer: a recording that says so was made up.
    let span_ns = to_ns
        .checked_sub(from_ns)
        .filter(|_| to_ns < u64::MAX / 2)?;
    let block_ns = span_ns / BLOCKS;
    let in_blocks = in_blocks && block_ns / step_ns >= STEPS_OF_A_BLOCK;
    let mut tally = Tally::default();
    let (mut delays, mut blocks) = (Delays::default(), Vec::new());
    let mut block_end_ns = match in_blocks {
        true => from_ns + block_ns,
        false => u64::MAX,
    };
    let mut chain = Chain {
        step_ns,
        next_ns: from_ns,
        steps: 0,
        largest_ns: BinaryHeap::new(),
    };
    let mut longest_ns = 0;
    sweep(cpus, step_ns, |piece| {
        chain.pass(&piece);
        longest_ns = longest_ns.max(piece.delay_ns);
        let mut rest = Some(piece);
        while let Some(piece) = rest {
            let (within, beyond) = piece.cut(block_end_ns);
            within.into_iter().for_each(|piece| tally.add(piece));
            if beyond.is_some() {
                let block = tally.take();
                delays.add(&block);
                blocks.push(block);
                // What the division leaves over is the last block's.
                block_end_ns = match (blocks.len() as u64) < BLOCKS - 1 {
                    true => block_end_ns + block_ns,
                    false => u64::MAX,
                };
            }
            rest = beyond;
        }
    });
    let last = tally.take();
    delays.add(&last);
    if in_blocks {
        blocks.push(last);
    }
    (chain.steps > 0).then(|| Measured {
        delays,
        blocks,
        span_ns,
        steps: chain.steps,
        largest_ns: chain.largest_ns.into_iter().map(|Reverse(ns)| ns).collect(),
        longest_ns,
    })
}
