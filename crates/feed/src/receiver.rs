//! A feed as its guest takes it: frames out of whatever bytes come, and what they came to.

use std::collections::BTreeMap;

use vmnoise_events::{FeedTotals, HostFrame};

use crate::decoder::Decoder;

/// vCPUs whose last frame is kept before the result begins.
const HELD_VCPUS: usize = 1024;

/// One feed, from before the run to its end. The host is not trusted, and may come and go.
#[derive(Debug, Default)]
pub struct Receiver {
    decoder: Decoder,
    totals: FeedTotals,
    /// The last frame of each vCPU from before the result: the zero mark of what follows.
    held: BTreeMap<u32, HostFrame>,
}

impl Receiver {
    /// Takes bytes that came, and hands on the frames that they complete.
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

    /// Takes bytes that came before the result begins.
    pub fn hold(&mut self, bytes: &[u8]) {
        let mut held = std::mem::take(&mut self.held);
        self.take(bytes, &mut |frame| {
            if held.len() < HELD_VCPUS || held.contains_key(&frame.vcpu) {
                held.insert(frame.vcpu, frame);
            }
        });
        self.held = held;
    }

    /// One of the frames held, if any came.
    pub fn held(&self) -> Option<&HostFrame> {
        self.held.values().next()
    }

    /// Gives what was held.
    pub fn release(&mut self) -> impl Iterator<Item = HostFrame> + use<> {
        std::mem::take(&mut self.held).into_values()
    }

    /// The host hung up; it may come again.
    pub fn hung_up(&mut self) {
        self.totals.hang_ups += 1;
    }

    /// What has come of it.
    pub fn totals(&self) -> FeedTotals {
        self.totals
    }
}
