//! Evidence kept for the instant at which a limit stopped a run: the stack at the timer's
//! interrupt, and the task on each CPU.

use vmnoise_tracer::{StopAsked, StopWitness};
use vmnoise_views::{AtStop, StopStack};

/// Options for the evidence of a stop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AskedAtStop {
    /// Least latency of a wake-up whose stack is kept, in nanoseconds; `None` keeps no stack.
    pub stack_from_ns: Option<u64>,
    /// Whether the task on each CPU is kept.
    pub tasks: bool,
}

impl AskedAtStop {
    /// Returns the evidence that the BPF programs must keep; `None` if the user asked for none.
    pub fn witness(&self) -> Option<StopAsked> {
        let asked = StopAsked {
            stacks: self.stack_from_ns.is_some(),
            turns: self.tasks,
        };
        (asked != StopAsked::default()).then_some(asked)
    }

    /// Returns the evidence for a wake-up of `cpu` that was due at `start_ns` (CLOCK_MONOTONIC) and
    /// came `late_ns` too late.
    pub fn of(self, witness: &StopWitness, cpu: u32, start_ns: u64, late_ns: u64) -> AtStop {
        let until_ns = start_ns.saturating_add(late_ns);
        let wants_stack = self.stack_from_ns.is_some_and(|from_ns| late_ns >= from_ns);
        let stack = || match witness.stack(cpu, start_ns, until_ns) {
            Some(frames) => StopStack::Frames(frames),
            None => StopStack::Missing,
        };
        AtStop {
            wakeup: (start_ns, cpu),
            stack: wants_stack.then(stack),
            occupants: self.tasks.then(|| witness.occupants(until_ns)),
        }
    }
}
