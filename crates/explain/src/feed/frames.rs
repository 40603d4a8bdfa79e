//! Frames of the host's feed about one CPU. The difference between two consecutive frames is the
//! time that the host took between them. If the host restarts its count (a later `from_tsc`), the
//! difference is taken from 0.

use vmnoise_events::HostFrame;

use super::hardware::{BareGap, Hardware};
use super::named::Named;
use super::reported::{CpuFromFeed, ReportedHost, Sum};
use crate::clockmap::ClockMap;

/// Reports of the host about one CPU: the last frame, its names, and the gaps since this frame.
#[derive(Debug, Default)]
pub(crate) struct HostLine {
    last: Option<HostFrame>,
    run: Sum,
    period: Sum,
    named: Named,
    hardware: Hardware,
}

impl HostLine {
    /// Returns whether a host reported anything about this CPU.
    pub(crate) fn has_feed(&self) -> bool {
        self.last.is_some()
    }

    /// Takes a frame. Returns `false` if the frame contradicts the previous one. A frame that
    /// begins before `started_tsc`, the start of the run, adds nothing to the sums.
    pub(crate) fn take(&mut self, frame: &HostFrame, started_tsc: Option<u64>) -> bool {
        let before = match &self.last {
            None => None,
            // The host restarted its count.
            Some(last) if frame.from_tsc > last.until_tsc => None,
            Some(last) if goes_on(last, frame) => Some(last),
            Some(_) => return false,
        };
        if !self.named.fits(frame, before) {
            return false;
        }
        let begin_tsc = before.map_or(frame.from_tsc, |last| last.until_tsc);
        let counts = started_tsc.is_some_and(|started_tsc| begin_tsc >= started_tsc);
        if counts {
            let advance = Sum::between(before, frame);
            self.run += advance;
            self.period += advance;
            self.named.count(frame, before);
            self.hardware.watch(begin_tsc, frame, advance.exits());
        }
        self.last = Some(frame.clone());
        true
    }

    /// Notes a gap in which no activity of the guest was seen. The residual of this gap may belong
    /// to the hardware.
    pub(crate) fn note(&mut self, gap: BareGap) {
        let has_feed = self.has_feed();
        self.hardware.note(gap, has_feed);
    }

    /// Settles the time before `settled_tsc`, because no later gap starts before this reading.
    pub(crate) fn settle(&mut self, settled_tsc: u64) {
        let hardware = self.hardware.settle(settled_tsc);
        self.run.hardware += hardware;
        self.period.hardware += hardware;
    }

    /// Returns the sums of the frames since the last call; `None` without frames.
    pub(crate) fn take_period(&mut self, clock: &ClockMap) -> Option<ReportedHost> {
        std::mem::take(&mut self.period).reported(clock)
    }

    /// Returns the sums of all frames of the run; `None` without frames.
    pub(crate) fn so_far(&self, clock: &ClockMap) -> Option<ReportedHost> {
        self.run.reported(clock)
    }

    /// Returns the sums of [`Self::so_far`], with the names of reasons and culprits.
    pub(crate) fn part(&self, clock: &ClockMap) -> Option<CpuFromFeed> {
        let (reasons, culprits) = self.named.reported(self.last.as_ref()?.detail);
        Some(CpuFromFeed {
            reported: self.so_far(clock)?,
            reasons,
            culprits,
        })
    }
}

/// Returns whether every count of `next` is at least the count in `last`.
fn goes_on(last: &HostFrame, next: &HostFrame) -> bool {
    let numbers = |frame: &HostFrame| {
        let HostFrame {
            until_tsc,
            exits,
            heavy,
            lost,
            ..
        } = *frame;
        [until_tsc, exits, heavy, exits.saturating_sub(heavy), lost]
    };
    let mut parts = last.split.iter();
    numbers(last)
        .iter()
        .zip(numbers(next))
        .all(|(a, b)| *a <= b)
        && parts.all(|(share, ns)| ns <= next.split[share])
}
