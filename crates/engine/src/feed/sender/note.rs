//! Notes to the user on the host about a feed. Each is printed once, so that a VMM that misbehaves
//! for hours does not fill the terminal.

use std::collections::BTreeSet;

use vmnoise_feed::FeedAddress;

/// Problem of a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Note {
    /// Nobody listens on the socket, or this process may not use it.
    Absent,
    /// The connection ended.
    Closed,
    /// The guest behind a vsock device does not listen.
    NotConnected,
    /// The process at the other end has no VM.
    NoVmm,
    /// The process at the other end has several VMs, and it is unknown whose guest it serves.
    SeveralVms,
    /// KVM did not report the relation between the guest's TSC and the host's.
    NoClock,
    /// Another thread had this vCPU's thread id before, so its exits are in the count.
    OthersCount,
}

/// The notes of one feed.
#[derive(Debug, Default)]
pub struct Notes {
    said: BTreeSet<Note>,
    /// Notes since the last call of [`Notes::take`].
    news: Vec<String>,
}

impl Notes {
    /// Adds a note, unless the same kind of note was added before.
    pub fn say(&mut self, feed: &FeedAddress, note: Note, why: &str) {
        if self.said.insert(note) {
            self.news.push(format!("feed {feed}: {why}"));
        }
    }

    /// Returns the notes since the last call.
    pub fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }
}
