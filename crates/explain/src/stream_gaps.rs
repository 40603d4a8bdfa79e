//! Times at which records of a stream may be missing.

use vmnoise_events::{Event, LossKind};

/// Time up to which a stream may have lost records.
#[derive(Debug, Default)]
pub(crate) struct StreamGaps {
    reported: [u64; LossKind::ALL.len()],
    /// Time up to which records may be missing, in nanoseconds of CLOCK_MONOTONIC on the machine
    /// of the stream.
    until_ns: u64,
    /// Whether no watermark has arrived since the last reported loss.
    is_fresh: bool,
}

impl StreamGaps {
    /// Takes the next event of the stream. A recorder first reads the clock, then takes the
    /// reported records, then reads the number of losses. The watermark is the clock reading.
    ///
    /// Therefore a loss before the time of a watermark is reported before this watermark. A loss
    /// that is reported before a watermark may have happened a little after the time of the
    /// watermark, but before the time of the next watermark.
    pub(crate) fn see(&mut self, event: &Event) {
        match event {
            Event::Loss(loss) => {
                let reported = &mut self.reported[loss.kind as usize];
                if loss.count > *reported {
                    *reported = loss.count;
                    self.until_ns = u64::MAX;
                    self.is_fresh = true;
                }
            }
            Event::Watermark(_) if self.is_fresh => self.is_fresh = false,
            Event::Watermark(mono_ns) if self.until_ns == u64::MAX => self.until_ns = *mono_ns,
            _ => {}
        }
    }

    /// Returns whether no loss after this time is known.
    pub(crate) fn is_past(&self, from_ns: u64) -> bool {
        self.until_ns <= from_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmnoise_events::Loss;

    #[test]
    fn a_loss_casts_doubt_until_the_watermark_after_the_next() {
        let lost = |count| {
            let kind = LossKind::RingFull;
            Event::Loss(Loss { kind, count })
        };
        let mut stream_gaps = StreamGaps::default();
        let mut past_90 = |event: Event| {
            stream_gaps.see(&event);
            stream_gaps.is_past(90)
        };
        assert!(past_90(lost(0)));
        assert!(!past_90(lost(3)));
        assert!(!past_90(Event::Watermark(60)));
        assert!(past_90(Event::Watermark(80)));
        assert!(past_90(lost(3)));
        assert!(!past_90(lost(4)));
        assert!(!past_90(Event::Watermark(85)));
        assert!(!past_90(lost(5)), "it goes on");
        assert!(!past_90(Event::Watermark(88)));
        assert!(!past_90(Event::Watermark(100)));
    }
}
