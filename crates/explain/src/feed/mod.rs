//! Reports that a guest receives from its host while both run. Each frame is about one vCPU and is
//! not trusted. Impossible frames are refused and counted.

mod frames;
mod hardware;
mod named;
mod reported;

use vmnoise_events::{FeedDetail, FeedTotals, HostFrame, RunFacts};

pub use named::{ReportedCulprit, ReportedReason};
pub use reported::{CpuFromFeed, FeedSummary, ReportedHost};

pub(crate) use frames::HostLine;
pub(crate) use hardware::BareGap;

use crate::clockmap::ClockMap;

const NS_PER_S: u64 = 1_000_000_000;

/// State of the feed, for all vCPUs.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    totals: Option<FeedTotals>,
    detail: Option<FeedDetail>,
    refused: u64,
}

impl Feed {
    pub(crate) fn report(&mut self, totals: FeedTotals) {
        self.totals = Some(totals);
    }

    /// Returns the CPU of the vCPU in this frame. Returns `None` if the CPU is unknown or the frame
    /// is impossible.
    pub(crate) fn cpu_of(
        &mut self,
        frame: &HostFrame,
        facts: &RunFacts,
        clock: &ClockMap,
    ) -> Option<u32> {
        let mut ids = facts.host.apic_ids.iter();
        let found = ids.find(|(_, apic_id)| *apic_id == frame.vcpu);
        match found {
            Some((cpu, _)) if is_possible(frame, facts.clock.tsc_hz, clock) => {
                self.detail = Some(frame.detail);
                Some(*cpu)
            }
            _ => {
                self.refuse();
                None
            }
        }
    }

    pub(crate) fn refuse(&mut self) {
        self.refused += 1;
    }

    /// Returns the summary; `None` if no host sent anything.
    pub(crate) fn summary(&self) -> Option<FeedSummary> {
        let FeedTotals {
            bytes,
            frames,
            garbled,
            hang_ups,
        } = self.totals?;
        Some(FeedSummary {
            detail: self.detail,
            bytes,
            frames,
            garbled,
            refused: self.refused,
            hang_ups,
        })
    }
}

/// Returns whether a host can send this frame. The frame must not end more than a second in the
/// future. Its exits and their time must fit into its span, within one percent for a wrong
/// frequency.
fn is_possible(frame: &HostFrame, tsc_hz: u64, clock: &ClockMap) -> bool {
    let Some((_, now_tsc)) = clock.span_tsc() else {
        return false;
    };
    let Some(span_tsc) = frame.until_tsc.checked_sub(frame.from_tsc) else {
        return false;
    };
    let span_ns = clock.duration_ns(span_tsc);
    let most_ns = span_ns
        .saturating_add(span_ns / 100)
        .saturating_add(NS_PER_S);
    frame.until_tsc <= now_tsc.saturating_add(tsc_hz)
        && frame.heavy <= frame.exits
        && frame.exits <= span_tsc
        && frame.split.total() <= most_ns
}
