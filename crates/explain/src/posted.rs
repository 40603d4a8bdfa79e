//! Decides from readings of a CPU's count whether a posted interrupt came to this CPU in a window.

use vmnoise_events::PostedInterrupts;

/// Readings of one CPU's count since it last changed.
#[derive(Debug, Default)]
pub(crate) struct Posted(Option<PostedInterrupts>);

impl Posted {
    /// Takes the next reading.
    pub(crate) fn see(&mut self, reading: PostedInterrupts) {
        let PostedInterrupts {
            count,
            from_mono_ns,
            until_mono_ns,
        } = reading;
        self.0 = match self.0 {
            // No interrupt came from the end of the first reading to the start of the last reading.
            Some(still) if still.count == count => Some(PostedInterrupts {
                from_mono_ns: from_mono_ns.max(still.from_mono_ns),
                ..still
            }),
            _ => Some(PostedInterrupts {
                count,
                from_mono_ns,
                until_mono_ns,
            }),
        };
    }

    /// Returns whether no interrupt came between these times (CLOCK_MONOTONIC, ns).
    pub(crate) fn none_came(&self, start_ns: u64, end_ns: u64) -> bool {
        let still =
            |it: PostedInterrupts| it.until_mono_ns <= start_ns && end_ns <= it.from_mono_ns;
        self.0.is_some_and(still)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(count: u64, from_mono_ns: u64) -> PostedInterrupts {
        PostedInterrupts {
            count,
            from_mono_ns,
            until_mono_ns: from_mono_ns + 10,
        }
    }

    #[test]
    fn none_came_between_two_readings_of_one_count() {
        let mut posted = Posted::default();
        assert!(!posted.none_came(0, 0));
        posted.see(reading(7, 100));
        assert!(!posted.none_came(120, 130), "nobody has looked since");
        posted.see(reading(7, 200));
        posted.see(reading(7, 300));
        assert!(posted.none_came(110, 300));
        assert!(!posted.none_came(109, 300) && !posted.none_came(110, 301));
        posted.see(reading(8, 400));
        assert!(!posted.none_came(120, 130), "it may have been then");
        posted.see(reading(8, 500));
        assert!(posted.none_came(410, 500));
    }
}
