//! The cost of one step of the polling loop, for benchmarks.

use super::interference::{InterferenceReader, InterferenceReading};
use super::polling::{PollStep, step};
use super::state::SpinState;
use crate::mailbox::SharedPage;
use crate::{thread, tsc};

/// Number of steps that are sampled.
const SAMPLES: usize = 1 << 18;

/// Returns the cycles between consecutive readings of a polling thread on `cpu`, one per step of
/// the loop, with gaps. This is the measuring step, with one more store (of the number itself), and
/// it never leaves for a gap. So the result is an upper bound.
///
/// # Errors
/// The same as [`super::Spin::prepare`].
pub fn poll_steps(cpu: u32) -> Result<Vec<u64>, thread::Error> {
    thread::on(cpu, || Ok(samples()))
}

fn samples() -> Vec<u64> {
    let state = SpinState::new(u64::MAX, SharedPage::default());
    state.mailbox.set_deadline(u64::MAX);
    let counter = InterferenceReader::new(None).counter();
    let slot = (*counter).as_ref();
    // Not zeros: their pages would fault in the loop.
    let mut deltas = vec![u64::MAX; SAMPLES];
    let mut last = InterferenceReading {
        tsc: tsc::now(),
        interferences: 0,
    };
    for delta in &mut deltas {
        let (PollStep::On(now_tsc) | PollStep::Due(now_tsc) | PollStep::Away(now_tsc)) =
            step(&state.mailbox, slot, u64::MAX, last, u64::MAX);
        *delta = now_tsc.wrapping_sub(last.tsc);
        last.tsc = now_tsc;
    }
    deltas
}
