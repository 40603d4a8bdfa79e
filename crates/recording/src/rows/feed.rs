//! Converts columns back to frames of the feed.

use vmnoise_events::{FeedDetail, FeedTotals, HostCulprit, HostFrame, HostReason, Share};

use super::Rows;
use crate::schema::{counter, event};

impl Rows {
    /// Returns the frame that begins with this row, and the index of the first row after the frame.
    pub(super) fn host_frame(&self, row: usize) -> Result<(HostFrame, usize), String> {
        let mut frame = HostFrame {
            vcpu: self.small_counter(row, counter::NUMBER)?,
            from_tsc: self.start_tsc.get(row)?,
            until_tsc: self.end_tsc.get(row)?,
            detail: self.kind(row, "frame", FeedDetail::from_number)?,
            sees_kvm: self.counter(row, counter::SEES_KVM)? != 0,
            is_last: self.counter(row, counter::IS_LAST)? != 0,
            exits: self.counter(row, counter::EXITS)?,
            heavy: self.counter(row, counter::HEAVY)?,
            split: self.split(row),
            lost: self.counter(row, counter::LOST)?,
            reasons: Vec::new(),
            culprits: Vec::new(),
        };
        let mut next = row + 1;
        loop {
            match self.event.find(next) {
                Some(event::HOST_REASON) => frame.reasons.push(self.host_reason(next)?),
                Some(event::HOST_CULPRIT) => frame.culprits.push(self.host_culprit(next)?),
                _ => return Ok((frame, next)),
            }
            next += 1;
        }
    }

    pub(super) fn feed_totals(&self, row: usize) -> Result<FeedTotals, String> {
        Ok(FeedTotals {
            bytes: self.counter(row, counter::BYTES)?,
            frames: self.counter(row, counter::FRAMES)?,
            garbled: self.counter(row, counter::GARBLED)?,
            hang_ups: self.counter(row, counter::HANG_UPS)?,
        })
    }

    fn host_reason(&self, row: usize) -> Result<HostReason, String> {
        Ok(HostReason {
            name: self.name(row)?.into(),
            exits: self.counter(row, counter::EXITS)?,
            dur_ns: self.counter(row, counter::DUR_NS)?,
        })
    }

    /// Returns the culprit of this row. The row has one counter, whose name is the name of the
    /// culprit's share.
    fn host_culprit(&self, row: usize) -> Result<HostCulprit, String> {
        let mut counters = self.counters(row);
        let (word, dur_ns) = counters
            .next()
            .ok_or_else(|| format!("row {row} lacks the share of its culprit"))?;
        let share = Share::ALL.into_iter().find(|share| share.name() == word);
        Ok(HostCulprit {
            share: share.ok_or_else(|| format!("row {row} names {word:?}, which is no share"))?,
            name: self.name(row)?.into(),
            dur_ns,
        })
    }
}
