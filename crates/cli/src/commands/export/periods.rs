//! Cuts a run into seconds, as far as its stream is certain.

use vmnoise_events::Event;

const SECOND_NS: u64 = 1_000_000_000;

/// Where the period under way began.
#[derive(Debug, Default)]
pub struct Periods {
    from_ns: Option<u64>,
    last_ns: u64,
}

impl Periods {
    /// Sees the next event once it was explained; returns the period that it ended, in
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

    /// The period that the end of the run cuts off.
    pub fn rest(&self) -> (u64, u64) {
        let from_ns = self.from_ns.unwrap_or_default();
        (from_ns, self.last_ns.max(from_ns))
    }
}
