//! Delays on the CPUs of one host, for steps of one duration.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::delays::{Delays, Tally};
use super::sweep::{Piece, sweep};
use crate::tail::LARGEST;
use crate::taken::TakenTime;

/// Number of blocks of equal duration into which a run is divided. The error of a prediction is
/// computed by leaving out each block once.
pub(super) const BLOCKS: u64 = 20;
/// Minimum number of steps in a block. In shorter blocks, steps that reach into the next block
/// matter, so the blocks are not independent.
const STEPS_OF_A_BLOCK: u64 = 20;

/// Delays of a host in steps of one duration.
#[derive(Debug)]
pub(super) struct Measured {
    /// Delays at all moments at which a step may begin.
    pub(super) delays: Delays,
    /// Delays at the moments of each block; empty if the run is too short for blocks.
    pub(super) blocks: Vec<Delays>,
    /// Duration of the host's recording, in nanoseconds.
    pub(super) span_ns: u64,
    /// Number of consecutive steps that fit in the run.
    pub(super) steps: u64,
    /// Largest delays of these steps, in nanoseconds, for the fit of a tail.
    pub(super) largest_ns: Vec<u64>,
    /// Largest delay of any step, in nanoseconds.
    pub(super) longest_ns: u64,
}

/// Consecutive steps of a program that runs on this host alone.
#[derive(Debug)]
struct Chain {
    step_ns: u64,
    /// End of the run, in nanoseconds.
    to_ns: u64,
    next_ns: u64,
    /// Number of steps that ended in the run.
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
            // All steps that begin in this piece have the same delay. If the delay falls, only one
            // step begins in this piece.
            let steps = match piece.falls {
                true => 1,
                false => (end_ns - self.next_ns).div_ceil(each_ns),
            };
            self.next_ns += steps * each_ns;
            // Only the last of these steps can end after the run.
            self.steps += steps - u64::from(self.next_ns > self.to_ns);
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

/// Measures the delays on these CPUs at all moments at which a step of this duration may begin.
/// Returns `None` if no step ends in the run.
pub(super) fn measure(cpus: &[TakenTime<'_>], step_ns: u64, in_blocks: bool) -> Option<Measured> {
    let from_ns = cpus.iter().map(|taken| taken.from_ns).max()?;
    let to_ns = cpus.iter().map(|taken| taken.to_ns).min()?;
    // No machine runs for that long, so such a recording is forged.
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
        to_ns,
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
                // The last block also gets the remainder of the division.
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
