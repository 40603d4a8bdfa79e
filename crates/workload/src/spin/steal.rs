//! Steal clock of a polling thread: its advance between two readings.

use crate::mailbox::Stolen;

/// One reading of a CPU's steal clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StealReading {
    /// Time that the hypervisor took since the CPU came up, in nanoseconds.
    pub steal_ns: u64,
    /// Field `version` of the steal page. It grows by 2 at each reload of the vCPU, and wraps
    /// around. `None` if the clock has no version.
    pub version: Option<u32>,
}

/// Function that reads the steal clock of one CPU. It returns `None` if the clock cannot be read
/// now.
pub type ReadSteal = Box<dyn FnMut() -> Option<StealReading> + Send>;

/// A steal clock, if there is one, and its last reading.
pub struct StealClock {
    reader: Option<ReadSteal>,
    counts_reloads: bool,
    seen: StealReading,
}

impl StealClock {
    /// Creates a value for a reader of a steal clock. If the first reading fails, the reader is not
    /// used.
    pub fn new(reader: Option<ReadSteal>) -> StealClock {
        let begun = reader.and_then(|mut read| Some((read()?, read)));
        let counts_reloads = begun
            .as_ref()
            .is_some_and(|(first, _)| first.version.is_some());
        StealClock {
            reader: begun.map(|(_, read)| read),
            counts_reloads,
            seen: StealReading::default(),
        }
    }

    /// Returns whether there is a steal clock.
    pub fn works(&self) -> bool {
        self.reader.is_some()
    }

    /// Returns whether the steal clock also counts how often the hypervisor reloaded the vCPU.
    pub fn counts_reloads(&self) -> bool {
        self.counts_reloads
    }

    /// Returns the advance of the steal clock since the previous reading. If a reading fails, the
    /// next reading includes its advance.
    pub fn advance(&mut self) -> Stolen {
        let Some(now) = self.reader.as_mut().and_then(|read| read()) else {
            return Stolen::default();
        };
        let before = std::mem::replace(&mut self.seen, now);
        Stolen {
            steal_ns: now.steal_ns.saturating_sub(before.steal_ns),
            version_moves: now
                .version
                .unwrap_or_default()
                .wrapping_sub(before.version.unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(readings: Vec<Option<(u64, u32)>>) -> StealClock {
        let mut readings = readings.into_iter();
        StealClock::new(Some(Box::new(move || {
            let (steal_ns, version) = readings.next().flatten()?;
            Some(StealReading {
                steal_ns,
                version: Some(version),
            })
        })))
    }

    #[test]
    fn it_reports_what_is_new() {
        let first = Some((0, 0));
        let mut clock = clock(vec![
            first,
            Some((1_000, u32::MAX - 1)),
            None,
            Some((1_500, 2)),
            Some((1_400, 2)),
        ]);
        assert!(clock.works() && clock.counts_reloads());
        clock.advance();
        assert_eq!(clock.advance(), Stolen::default(), "missed");
        let caught_up = Stolen {
            steal_ns: 500,
            version_moves: 4,
        };
        assert_eq!(clock.advance(), caught_up, "across the wrap");
        assert_eq!(
            clock.advance(),
            Stolen::default(),
            "never less than nothing"
        );
    }

    #[test]
    fn a_clock_without_version_counts_no_reloads() {
        let mut steal_ns = 0;
        let mut clock = StealClock::new(Some(Box::new(move || {
            steal_ns += 10;
            Some(StealReading {
                steal_ns,
                version: None,
            })
        })));
        assert!(clock.works() && !clock.counts_reloads());
        clock.advance();
        let stolen = Stolen {
            steal_ns: 10,
            version_moves: 0,
        };
        assert_eq!(clock.advance(), stolen);
    }

    #[test]
    fn a_reader_that_cannot_read_is_none() {
        assert!(!clock(vec![None, Some((1, 2))]).works());
        let mut none = StealClock::new(None);
        assert!(!none.works());
        assert_eq!(none.advance(), Stolen::default());
    }
}
