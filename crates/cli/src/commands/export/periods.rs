//! Divides a run into periods of a second. Each period ends at a watermark, and so may be a little
//! longer.

use vmnoise_events::Event;

const SECOND_NS: u64 = 1_000_000_000;

/// Begin of the current period, and the last watermark.
#[derive(Debug, Default)]
pub struct Periods {
    from_ns: Option<u64>,
    last_ns: u64,
}

impl Periods {
    /// Takes the next event, after it was explained. Returns the period that this event ended, in
    /// nanoseconds of CLOCK_MONOTONIC.
    pub fn see(&mut self, event: &Event) -> Option<(u64, u64)> {
        let mono_ns = match event {
            Event::Anchor(anchor) => {
                self.from_ns.get_or_insert(anchor.mono_ns);
                return None;
            }
            Event::Watermark(mono_ns) => *mono_ns,
            _ => return None,
        };
        let from_ns = *self.from_ns.get_or_insert(mono_ns);
        self.last_ns = self.last_ns.max(mono_ns);
        if self.last_ns.saturating_sub(from_ns) < SECOND_NS {
            return None;
        }
        self.from_ns = Some(self.last_ns);
        Some((from_ns, self.last_ns))
    }

    /// Returns the last period, which the end of the run cuts short.
    pub fn rest(&self) -> (u64, u64) {
        let from_ns = self.from_ns.unwrap_or_default();
        (from_ns, self.last_ns.max(from_ns))
    }
}
