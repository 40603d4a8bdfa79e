//! The guest's end of a feed: reads what the host sends, a bounded part at a time, and gives
//! its frames as events. The host is not trusted, and may come and go.

mod link;
pub mod rung;
mod way;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vmnoise_events::{Event, FeedTotals, HostFacts, HostFrame, Rung};
use vmnoise_feed::Decoder;

pub use way::{FeedFrom, Way};

use link::{Link, Took};

/// At most so much is read at once: frames of some hundred vCPUs.
const BYTES_AT_ONCE: usize = 64 * 1024;
/// A way that is shut is tried again after this time.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// vCPUs whose last frame is kept before the result begins.
const HELD_VCPUS: usize = 1024;

/// The feed, or the rung that says why there is none; neither where there is no host.
///
/// # Errors
/// If the user named a way that cannot be opened.
pub fn open(from: &FeedFrom, machine: &HostFacts) -> Result<(Option<HostFeed>, Option<Rung>)> {
    let Some(way) = Way::find(from, machine) else {
        let has_host = *from == FeedFrom::Auto && machine.hypervisor.is_some();
        return Ok((None, has_host.then(|| rung::of_none(""))));
    };
    match HostFeed::open(way.clone()) {
        Ok(feed) => Ok((Some(feed), None)),
        // Nobody asked for it.
        Err(error) if *from == FeedFrom::Auto => {
            let why = format!("{way}: {error}");
            Ok((None, Some(rung::of_none(&why))))
        }
        Err(error) => Err(error).with_context(|| {
            format!("cannot read the feed {way}; name another with --feed, or --feed none")
        }),
    }
}

/// One feed, from before the run to its end.
#[derive(Debug)]
pub struct HostFeed {
    way: Way,
    link: Option<Link>,
    next_try: Instant,
    decoder: Decoder,
    totals: FeedTotals,
    /// The last frame of each vCPU from before the result: the zero mark of what follows.
    held: BTreeMap<u32, HostFrame>,
    buffer: Vec<u8>,
}

impl HostFeed {
    /// Opens this way.
    ///
    /// # Errors
    /// If it cannot be opened: somebody else reads it, or it is not there.
    pub fn open(way: Way) -> std::io::Result<HostFeed> {
        Ok(HostFeed {
            link: Some(Link::open(&way)?),
            way,
            next_try: Instant::now(),
            decoder: Decoder::new(),
            totals: FeedTotals::default(),
            held: BTreeMap::new(),
            buffer: vec![0; BYTES_AT_ONCE],
        })
    }

    /// Which way it comes.
    pub fn way(&self) -> &Way {
        &self.way
    }

    /// Reads what is there before the result begins.
    pub fn hold(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        self.read(&mut |frame| {
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

    /// Gives what was held, and what came since.
    pub fn drain(&mut self, each: &mut dyn FnMut(Event)) {
        let held = std::mem::take(&mut self.held);
        held.into_values()
            .for_each(|frame| each(Event::HostFrame(frame)));
        self.read(&mut |frame| each(Event::HostFrame(frame)));
    }

    /// What has come of it; `None` as long as nothing did.
    pub fn totals(&self) -> Option<FeedTotals> {
        (self.totals != FeedTotals::default()).then_some(self.totals)
    }

    fn read(&mut self, each: &mut dyn FnMut(HostFrame)) {
        if self.link.is_none() && Instant::now() >= self.next_try {
            self.next_try = Instant::now() + TRY_AGAIN;
            self.link = Link::open(&self.way).ok();
        }
        let Some(link) = &mut self.link else { return };
        let mut room = BYTES_AT_ONCE;
        while room > 0 {
            match link.take(&mut self.buffer[..room]) {
                Took::Bytes(count) => {
                    room -= count;
                    self.totals.bytes += count as u64;
                    let totals = &mut self.totals;
                    self.decoder
                        .push(&self.buffer[..count], &mut |frame| match frame {
                            Ok(frame) => {
                                totals.frames += 1;
                                each(frame);
                            }
                            Err(_) => totals.garbled += 1,
                        });
                }
                Took::Nothing => return,
                Took::HangUp => {
                    self.totals.hang_ups += 1;
                    return;
                }
                Took::Broken => {
                    self.totals.hang_ups += 1;
                    self.link = None;
                    self.next_try = Instant::now() + TRY_AGAIN;
                    return;
                }
            }
        }
    }
}
