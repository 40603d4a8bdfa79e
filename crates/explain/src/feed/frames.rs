//! The frames about one CPU: what lies between each two of them is what the host took.
//! A count that a host began anew (a later `from_tsc`) begins with nothing.

use vmnoise_events::HostFrame;

use super::hardware::{BareGap, Hardware};
use super::named::Named;
use super::reported::{CpuFromFeed, ReportedHost, Sum};
use crate::clockmap::ClockMap;

/// One CPU as its host tells it. Memory holds the last frame, the names it gave, and the
/// gaps since.
#[derive(Debug, Default)]
pub(crate) struct HostLine {
    last: Option<HostFrame>,
    run: Sum,
    period: Sum,
    named: Named,
    hardware: Hardware,
}

impl HostLine {
    /// Whether a host reported anything of this CPU.
    pub(crate) fn has_feed(&self) -> bool {
        self.last.is_some()
    }

    /// Takes a frame; `false` where it contradicts the one before. What lies before
    /// `started_tsc`, the begin of the run, does not count.
    pub(crate) fn take(&mut self, frame: &HostFrame, started_tsc: Option<u64>) -> bool {
        let before = match &self.last {
            None => None,
            // The count begins anew.
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

    /// A gap in which nobody in the guest was seen, and whose residual may be the hardware's.
    pub(crate) fn note(&mut self, gap: BareGap) {
        let has_feed = self.has_feed();
        self.hardware.note(gap, has_feed);
    }

    /// No gap that begins before this is still to come.
    pub(crate) fn settle(&mut self, settled_tsc: u64) {
        let hardware = self.hardware.settle(settled_tsc);
        self.run.hardware += hardware;
        self.period.hardware += hardware;
    }

    /// What the frames since the last call told; `None` if none did.
    pub(crate) fn take_period(&mut self, clock: &ClockMap) -> Option<ReportedHost> {
        std::mem::take(&mut self.period).reported(clock)
    }

    /// What all frames of the run told; `None` if none did.
    pub(crate) fn so_far(&self, clock: &ClockMap) -> Option<ReportedHost> {
        self.run.reported(clock)
    }

    /// As `so_far`, with names.
    pub(crate) fn part(&self, clock: &ClockMap) -> Option<CpuFromFeed> {
        let (reasons, culprits) = self.named.reported(self.last.as_ref()?.detail);
        Some(CpuFromFeed {
            reported: self.so_far(clock)?,
            reasons,
            culprits,
        })
    }
}

/// Whether each count of `next` is that of `last` or more.
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
