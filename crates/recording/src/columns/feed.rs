//! Converts frames of the feed to columns.

use vmnoise_events::{FeedTotals, HostFrame};

use super::vcpus::parts;
use super::{Columns, Row};
use crate::schema::{counter, event};

impl Columns {
    /// Adds one row for the frame, then one row for each reason, then one row for each culprit.
    pub(super) fn push_host_frame(&mut self, frame: &HostFrame) {
        let counts = [
            (counter::NUMBER, Some(frame.vcpu.into())),
            (counter::SEES_KVM, Some(frame.sees_kvm.into())),
            (counter::IS_LAST, Some(frame.is_last.into())),
            (counter::EXITS, Some(frame.exits)),
            (counter::HEAVY, Some(frame.heavy)),
            (counter::LOST, Some(frame.lost)),
        ];
        let counters: Vec<_> = counts.into_iter().chain(parts(&frame.split)).collect();
        self.push(&Row {
            event: event::HOST_FRAME,
            kind: Some(frame.detail as u8),
            start_tsc: Some(frame.from_tsc),
            end_tsc: Some(frame.until_tsc),
            counters: Some(&counters),
            ..Row::default()
        });
        for reason in &frame.reasons {
            self.push(&Row {
                event: event::HOST_REASON,
                name: Some(&reason.name),
                counters: Some(&[
                    (counter::EXITS, Some(reason.exits)),
                    (counter::DUR_NS, Some(reason.dur_ns)),
                ]),
                ..Row::default()
            });
        }
        for culprit in &frame.culprits {
            self.push(&Row {
                event: event::HOST_CULPRIT,
                name: Some(&culprit.name),
                counters: Some(&[(culprit.share.name(), Some(culprit.dur_ns))]),
                ..Row::default()
            });
        }
    }

    pub(super) fn push_feed_totals(&mut self, totals: &FeedTotals) {
        self.push(&Row {
            event: event::FEED_TOTALS,
            counters: Some(&[
                (counter::BYTES, Some(totals.bytes)),
                (counter::FRAMES, Some(totals.frames)),
                (counter::GARBLED, Some(totals.garbled)),
                (counter::HANG_UPS, Some(totals.hang_ups)),
            ]),
            ..Row::default()
        });
    }
}
