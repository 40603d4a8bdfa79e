//! Where something may be missing of a stream.

use vmnoise_events::{Event, LossKind};

/// Until when a stream has lost something.
#[derive(Debug, Default)]
pub(super) struct Doubt {
    told: [u64; LossKind::ALL.len()],
    /// CLOCK_MONOTONIC of the stream's side in nanoseconds.
    until_ns: u64,
}

impl Doubt {
    /// Takes the next event of the stream. What is told to be lost was lost before the
    /// watermark that follows.
    pub(super) fn see(&mut self, event: &Event) {
        match event {
            Event::Loss(loss) => {
                let told = &mut self.told[loss.kind as usize];
                if loss.count > *told {
                    *told = loss.count;
                    self.until_ns = u64::MAX;
                }
            }
            Event::Watermark(mono_ns) if self.until_ns == u64::MAX => self.until_ns = *mono_ns,
            _ => {}
        }
    }

    /// Whether nothing is known to be lost of what came after this instant.
    pub(super) fn is_past(&self, from_ns: u64) -> bool {
        self.until_ns <= from_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmnoise_events::Loss;

    #[test]
    fn a_loss_casts_doubt_until_the_next_watermark() {
        let lost = |count| {
            let kind = LossKind::RingFull;
            Event::Loss(Loss { kind, count })
        };
        let mut doubt = Doubt::default();
        let mut past_90 = |event: Event| {
            doubt.see(&event);
            doubt.is_past(90)
        };
        assert!(past_90(lost(0)));
        assert!(!past_90(lost(3)));
        assert!(past_90(Event::Watermark(80)));
        assert!(past_90(lost(3)));
        assert!(!past_90(lost(4)));
        assert!(!past_90(Event::Watermark(100)));
    }
}
