//! What holds of every result, whatever its stream holds. Fuzzing asserts the same.

pub mod exits;
pub mod gaps;
pub mod wakeups;

use vmnoise_events::{Event, Finish, FinishReason};

fn finish() -> Event {
    Event::Finish(Finish {
        reason: FinishReason::Duration,
        mono_ns: 0,
    })
}
