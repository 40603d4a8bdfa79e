//! Notes about a feed for the user on the host. Each kind of note is printed once, so that a VMM
//! with a lasting problem does not fill the terminal.

use std::collections::BTreeSet;

use vmnoise_feed::FeedAddress;

/// Problem of a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Note {
    /// No process listens on the socket, or this process may not use the socket.
    Absent,
    /// The connection ended.
    Closed,
    /// The guest behind a vsock device does not listen.
    NotConnected,
    /// The process at the other end has no VM.
    NoVmm,
    /// The process at the other end has several VMs, and it is unknown to which VM the socket
    /// belongs.
    SeveralVms,
    /// KVM did not report the relation between the guest's TSC and the host's.
    NoClock,
    /// Another thread had this vCPU's thread id before, so the count includes exits of that thread.
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
