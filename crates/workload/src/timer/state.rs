//! Memory that one periodic task shares with the draining thread.

use std::sync::atomic::{AtomicU64, Ordering};

use vmnoise_events::{Activation, CpuTally, Event};

use crate::kick::kick;
use crate::mailbox::{Mailbox, SharedPage};
use crate::shared_state::SharedState;

/// Number of records in the ring, a power of two. At the shortest period (50 µs), the draining
/// thread may be 800 ms late before a record is dropped.
const RECORDS: usize = 1 << 14;
const WORDS: usize = 12;

/// One activation as words, in two cache lines. The value 0 means that no probe saw the event.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Record([AtomicU64; WORDS]);

/// A mailbox, and a ring of activations.
#[derive(Debug)]
pub struct TimerState {
    pub mailbox: Box<Mailbox>,
    ring: Box<[Record]>,
}

impl TimerState {
    /// Creates the state. The function writes every page, so that later accesses cause no page
    /// fault.
    pub fn new() -> TimerState {
        TimerState {
            mailbox: Box::default(),
            ring: (0..RECORDS).map(|_| Record::default()).collect(),
        }
    }

    /// Appends an activation, or counts it as dropped if the ring is full.
    pub fn push(&self, activation: &Activation) {
        self.mailbox.push(&self.ring, |record| {
            for (word, value) in record.0.iter().zip(words(activation)) {
                word.store(value, Ordering::Relaxed);
            }
        });
    }
}

impl SharedState for TimerState {
    fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    fn known(&self) -> SharedPage {
        SharedPage::default()
    }

    fn drain(&self, cpu: u32, sink: &mut dyn FnMut(Event)) {
        self.mailbox.drain(&self.ring, |record| {
            let word = |index: usize| record.0[index].load(Ordering::Relaxed);
            let words = std::array::from_fn(word);
            sink(Event::Activation(activation(cpu, words)));
        });
    }

    /// Reports no blind time (`None`) for a task that never paused.
    fn tally(&self, cpu: u32) -> CpuTally {
        let tally = self.mailbox.tally(cpu, self.known());
        CpuTally {
            blind_tsc: tally.blind_tsc.filter(|&blind_tsc| blind_tsc > 0),
            ..tally
        }
    }

    /// Interrupts the sleep of the task. A signal that arrives just before the sleep has no effect.
    /// The task then ends at its next wake-up.
    fn wake(&self, tid: u32) {
        kick(tid);
    }
}

fn words(activation: &Activation) -> [u64; WORDS] {
    let known = |mono_ns: Option<u64>| mono_ns.unwrap_or(0);
    let [armed_late, irq, handler, wakeup, user] = activation.steal_ns;
    [
        activation.expiry_mono_ns,
        activation.woke_mono_ns,
        known(activation.armed_mono_ns),
        known(activation.irq_mono_ns),
        known(activation.waking_mono_ns),
        known(activation.switch_mono_ns),
        armed_late,
        irq,
        handler,
        wakeup,
        user,
        activation.missed.into(),
    ]
}

fn activation(cpu: u32, words: [u64; WORDS]) -> Activation {
    let [expiry, woke, armed, irq, waking, switch, steal @ .., missed] = words;
    let seen = |mono_ns: u64| (mono_ns > 0).then_some(mono_ns);
    Activation {
        cpu,
        expiry_mono_ns: expiry,
        woke_mono_ns: woke,
        armed_mono_ns: seen(armed),
        irq_mono_ns: seen(irq),
        waking_mono_ns: seen(waking),
        switch_mono_ns: seen(switch),
        steal_ns: steal,
        missed: u32::try_from(missed).unwrap_or(u32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(expiry_mono_ns: u64) -> Activation {
        Activation {
            cpu: 3,
            expiry_mono_ns,
            woke_mono_ns: expiry_mono_ns + 50,
            armed_mono_ns: None,
            irq_mono_ns: Some(expiry_mono_ns + 1),
            waking_mono_ns: Some(expiry_mono_ns + 2),
            switch_mono_ns: None,
            steal_ns: [1, 2, 3, 4, 5],
            missed: 9,
        }
    }

    #[test]
    fn what_goes_in_comes_out_in_order_across_the_wrap() {
        let state = TimerState::new();
        let mut next = 1;
        for burst in [1, 10_000, 0, 10_000, RECORDS as u64] {
            (next..next + burst).for_each(|expiry| state.push(&at(expiry)));
            let mut drained = Vec::new();
            state.drain(3, &mut |event| drained.push(event));
            let expected: Vec<_> = (next..next + burst)
                .map(|at_ns| Event::Activation(at(at_ns)))
                .collect();
            assert!(drained == expected, "of {burst}");
            next += burst;
        }
        assert_eq!(state.mailbox.count(|counters| &counters.dropped), 0);
    }

    #[test]
    fn a_full_ring_keeps_the_oldest_and_counts_the_rest() {
        let state = TimerState::new();
        (1..=RECORDS as u64 + 5).for_each(|expiry| state.push(&at(expiry)));
        assert_eq!(state.mailbox.count(|counters| &counters.dropped), 5);
        let mut drained = 0;
        state.drain(3, &mut |_| drained += 1);
        assert_eq!(drained, RECORDS);
    }
}
