//! Measures the cost of one iteration of the polling loop, for benchmarks.

use super::interference::{InterferenceReader, InterferenceReading};
use super::polling::{PollStep, step};
use super::state::SpinState;
use crate::mailbox::SharedPage;
use crate::{thread, tsc};

/// Number of iterations to measure.
const SAMPLES: usize = 1 << 18;

/// Returns the TSC cycles between consecutive readings of a polling thread on `cpu`, for each
/// iteration of the loop. Gaps are included.
///
/// The measured loop is the polling loop with one more store per iteration, for the result. It does
/// not record gaps. So the result is an upper bound.
///
/// # Errors
/// The same errors as [`thread::pin`].
pub fn poll_steps(cpu: u32) -> Result<Vec<u64>, thread::Error> {
    thread::on(cpu, || Ok(samples()))
}

fn samples() -> Vec<u64> {
    let state = SpinState::new(u64::MAX, SharedPage::default());
    state.mailbox.set_deadline(u64::MAX);
    let counter = InterferenceReader::new(None).counter();
    let slot = (*counter).as_ref();
    // Not zeros: the first write to a page of zeros would fault in the loop.
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
