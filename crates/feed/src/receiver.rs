//! The guest's end of a feed: decodes frames from any bytes, and counts frames and errors.

use std::collections::BTreeMap;

use vmnoise_events::{FeedTotals, HostFrame};

use crate::decoder::FrameDecoder;

/// Maximum number of vCPUs whose last frame is kept before the result begins.
const HELD_VCPUS: usize = 1024;

/// One feed, from before the run to the end of the run. The host is not trusted, and may come and
/// go.
#[derive(Debug, Default)]
pub struct FeedReceiver {
    decoder: FrameDecoder,
    totals: FeedTotals,
    /// Last frame of each vCPU before the result begins. The counts in later frames are compared
    /// with this frame.
    held: BTreeMap<u32, HostFrame>,
}

impl FeedReceiver {
    /// Decodes received bytes, and passes the frames that they complete to `each`.
    pub fn take(&mut self, bytes: &[u8], each: &mut dyn FnMut(HostFrame)) {
        let totals = &mut self.totals;
        totals.bytes += bytes.len() as u64;
        self.decoder.push(bytes, &mut |frame| match frame {
            Ok(frame) => {
                totals.frames += 1;
                each(frame);
            }
            Err(_) => totals.garbled += 1,
        });
    }

    /// Decodes bytes that were received before the result begins, and keeps the last frame of each
    /// vCPU.
    pub fn hold(&mut self, bytes: &[u8]) {
        let mut held = std::mem::take(&mut self.held);
        self.take(bytes, &mut |frame| {
            if held.len() < HELD_VCPUS || held.contains_key(&frame.vcpu) {
                held.insert(frame.vcpu, frame);
            }
        });
        self.held = held;
    }

    /// Returns the first of the kept frames; `None` if no frame is kept.
    pub fn held(&self) -> Option<&HostFrame> {
        self.held.values().next()
    }

    /// Returns all kept frames, and removes them.
    pub fn release(&mut self) -> impl Iterator<Item = HostFrame> + use<> {
        std::mem::take(&mut self.held).into_values()
    }

    /// Counts that the host hung up. The host may connect again.
    pub fn hung_up(&mut self) {
        self.totals.hang_ups += 1;
    }

    /// Returns the counts of the feed.
    pub fn totals(&self) -> FeedTotals {
        self.totals
    }
}
