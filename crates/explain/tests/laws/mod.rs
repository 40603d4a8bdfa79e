//! Laws: properties of every result, for any stream. The fuzz targets assert the same laws.

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
