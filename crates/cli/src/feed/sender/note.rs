//! What the host's owner is told of a feed, once each: a VMM that misbehaves for hours
//! must not fill the terminal.

use std::collections::BTreeSet;

use vmnoise_feed::FeedAddress;

/// What can be wrong with a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Note {
    /// Nobody listens, or may be talked to.
    Absent,
    /// It ended.
    Closed,
    /// The guest behind a vsock device does not listen.
    NotConnected,
    /// The process at the other end has no VM.
    NoVmm,
    /// It has several: whose guest is at the other end is not known.
    SeveralVms,
    /// KVM does not say how a guest's TSC follows from the host's.
    NoClock,
    /// Another thread had this vCPU's thread id before, and its exits are in the count.
    OthersCount,
}

/// The notes of one feed.
#[derive(Debug, Default)]
pub struct Notes {
    said: BTreeSet<Note>,
    /// Those that nobody has heard yet.
    news: Vec<String>,
}

impl Notes {
    /// Says it, unless it was said.
    pub fn say(&mut self, feed: &FeedAddress, note: Note, why: &str) {
        if self.said.insert(note) {
            self.news.push(format!("feed {feed}: {why}"));
        }
    }

    /// What was said since the last call.
    pub fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }
}
