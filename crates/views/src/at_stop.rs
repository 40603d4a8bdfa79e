//! Evidence of the instant at which a limit stopped a run. The evidence is kept only on request,
//! and no recording contains it.

use vmnoise_events::{Occupant, StackFrame};

/// Key of a gap or wake-up: its start or due time (CLOCK_MONOTONIC, nanoseconds), and its CPU.
pub type GapKey = (u64, u32);

/// Evidence of one stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtStop {
    /// Wake-up that was late.
    pub wakeup: GapKey,
    /// Kernel stack at the timer's interrupt; `None` if the user asked for no stack.
    pub stack: Option<StopStack>,
    /// Task on each CPU, by CPU number, or `None` if no switch was seen on this CPU. `None` for all
    /// if the user asked for no tasks.
    pub occupants: Option<Vec<Option<Occupant>>>,
}

/// Kernel stack of a stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopStack {
    /// Frames of the stack, innermost first.
    Frames(Vec<StackFrame>),
    /// The stack was not kept, or was already overwritten.
    Missing,
}
