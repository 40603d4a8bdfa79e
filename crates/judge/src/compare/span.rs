//! Length of a recording.

use vmnoise_events::Event;

/// Time from the first to the last watermark of a stream.
#[derive(Debug, Clone, Copy, Default)]
pub struct StreamSpan(Option<(u64, u64)>);

impl StreamSpan {
    /// Adds the next event.
    pub fn push(&mut self, event: &Event) {
        if let Event::Watermark(mono_ns) = *event {
            let (first_ns, last_ns) = self.0.unwrap_or((mono_ns, mono_ns));
            self.0 = Some((first_ns, last_ns.max(mono_ns)));
        }
    }

    /// Returns the length in nanoseconds.
    pub fn ns(&self) -> u64 {
        self.0
            .map_or(0, |(first_ns, last_ns)| last_ns.saturating_sub(first_ns))
    }
}
