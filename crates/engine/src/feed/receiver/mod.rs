//! The guest's end of a feed. It passes on the host's frames as events, and reads a bounded number
//! of bytes at a time. The host is not trusted, and may disconnect and connect at any time.

mod link;
pub mod probe_status;
mod transport;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vmnoise_events::{Event, FeedTotals, HostFacts, HostFrame, ProbeStatus};
use vmnoise_feed::FeedReceiver;

pub use transport::{FeedFrom, Transport};

use link::{Link, Took};

/// Largest number of bytes that one call reads: frames of some hundred vCPUs.
const BYTES_AT_ONCE: usize = 64 * 1024;
/// Time after which a broken connection is opened again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Opens the feed, or returns the probe status that says why there is no feed. Returns neither if
/// this machine has no host, or if `--feed none` is set.
///
/// # Errors
/// If `--feed` names a path that cannot be opened.
pub fn open(
    from: &FeedFrom,
    machine: &HostFacts,
) -> Result<(Option<HostFeed>, Option<ProbeStatus>)> {
    let Some(transport) = Transport::find(from, machine) else {
        let has_host = *from == FeedFrom::Auto && machine.hypervisor.is_some();
        return Ok((None, has_host.then(|| probe_status::of_none(""))));
    };
    match HostFeed::open(transport.clone()) {
        Ok(feed) => Ok((Some(feed), None)),
        // Without --feed this is no error.
        Err(error) if *from == FeedFrom::Auto => {
            let why = format!("{transport}: {error}");
            Ok((None, Some(probe_status::of_none(&why))))
        }
        Err(error) => Err(error).with_context(|| {
            format!("cannot read the feed {transport}; name another with --feed, or --feed none")
        }),
    }
}

/// Feed of a run, open from before the run until its end.
#[derive(Debug)]
pub struct HostFeed {
    transport: Transport,
    link: Option<Link>,
    next_try: Instant,
    receiver: FeedReceiver,
    buffer: Vec<u8>,
}

impl HostFeed {
    /// Opens the feed.
    ///
    /// # Errors
    /// If the transport cannot be opened, because another process reads it or because it does not
    /// exist.
    pub fn open(transport: Transport) -> std::io::Result<HostFeed> {
        Ok(HostFeed {
            link: Some(Link::open(&transport)?),
            transport,
            next_try: Instant::now(),
            receiver: FeedReceiver::default(),
            buffer: vec![0; BYTES_AT_ONCE],
        })
    }

    /// Returns the transport of the feed.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Reads and keeps the frames that come before the result begins.
    pub fn hold(&mut self) {
        self.read(&mut |receiver, bytes| receiver.hold(bytes));
    }

    /// Returns one of the kept frames, if any came.
    pub fn held(&self) -> Option<&HostFrame> {
        self.receiver.held()
    }

    /// Passes on the kept frames, and the frames that came since.
    pub fn drain(&mut self, each: &mut dyn FnMut(Event)) {
        for frame in self.receiver.release() {
            each(Event::HostFrame(frame));
        }
        self.read(&mut |receiver, bytes| {
            receiver.take(bytes, &mut |frame| each(Event::HostFrame(frame)));
        });
    }

    /// Returns the totals of the feed; `None` until the first bytes came.
    pub fn totals(&self) -> Option<FeedTotals> {
        let totals = self.receiver.totals();
        (totals != FeedTotals::default()).then_some(totals)
    }

    fn read(&mut self, each: &mut dyn FnMut(&mut FeedReceiver, &[u8])) {
        if self.link.is_none() && Instant::now() >= self.next_try {
            self.next_try = Instant::now() + TRY_AGAIN;
            self.link = Link::open(&self.transport).ok();
        }
        let Some(link) = &mut self.link else { return };
        let mut room = BYTES_AT_ONCE;
        while room > 0 {
            match link.take(&mut self.buffer[..room]) {
                Took::Bytes(count) => {
                    room -= count;
                    each(&mut self.receiver, &self.buffer[..count]);
                }
                Took::Nothing => return,
                Took::HangUp => {
                    self.receiver.hung_up();
                    return;
                }
                Took::Broken => {
                    self.receiver.hung_up();
                    self.link = None;
                    self.next_try = Instant::now() + TRY_AGAIN;
                    return;
                }
            }
        }
    }
}
