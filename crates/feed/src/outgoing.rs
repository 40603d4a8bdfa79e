//! Queue of frames for one guest, with a fixed size however slowly the guest reads.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};

/// Maximum size of the queue in bytes, not counting a half-written frame. The queue holds the
/// counts of some 480 vCPUs, or the names of six.
pub const ROOM: usize = 64 << 10;
/// Maximum number of frames in one write.
const AT_ONCE: usize = 64;

/// Queue of frames that the kernel has not yet accepted.
#[derive(Debug, Default)]
pub struct Outgoing {
    frames: VecDeque<Vec<u8>>,
    /// Number of bytes of the first frame that are already written.
    written: usize,
    /// Index of the vCPU whose frame comes first next time. If there is no room for the frames of
    /// all vCPUs, the vCPUs take turns.
    turn: usize,
    /// Number of frames that were written.
    pub sent: u64,
    /// Number of frames that newer frames replaced, or for which there was no room.
    pub skipped: u64,
    /// Number of bytes that were written.
    pub bytes: u64,
    /// Number of writes. Each write may cause an interrupt in the guest.
    pub writes: u64,
}

impl Outgoing {
    /// Replaces the waiting frames. A half-written frame stays, because the next frame must begin
    /// where the half-written frame ends.
    pub fn replace(&mut self, frames: Vec<Vec<u8>>) {
        self.forget_unsent();
        let total = frames.len();
        let first = self.turn % total.max(1);
        let (later, sooner) = frames.split_at(first);
        let mut used = 0;
        let mut taken = 0;
        for frame in sooner.iter().chain(later) {
            if used + frame.len() > ROOM {
                break;
            }
            used += frame.len();
            taken += 1;
            self.frames.push_back(frame.clone());
        }
        self.skipped += (total - taken) as u64;
        self.turn = if taken < total { first + taken } else { 0 };
    }

    /// Writes as much as possible without blocking, in as few writes as possible.
    ///
    /// # Errors
    /// If the connection is closed.
    pub fn write_to(&mut self, socket: &mut impl Write) -> io::Result<()> {
        while !self.frames.is_empty() {
            let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(AT_ONCE);
            let mut skip = self.written;
            for frame in self.frames.iter().take(AT_ONCE) {
                slices.push(IoSlice::new(&frame[skip..]));
                skip = 0;
            }
            match socket.write_vectored(&slices) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(taken) => self.taken(taken),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Drops the waiting frames, except a half-written one.
    pub fn forget_unsent(&mut self) {
        let kept = usize::from(self.written > 0);
        self.skipped += self.frames.drain(kept..).len() as u64;
    }

    /// Drops all waiting frames, because the connection is closed.
    pub fn forget(&mut self) {
        self.skipped += self.frames.drain(..).len() as u64;
        self.written = 0;
    }

    /// Returns whether all frames are written.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    fn taken(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.writes += 1;
        self.written += bytes;
        while let Some(first) = self.frames.front() {
            if self.written < first.len() {
                break;
            }
            self.written -= first.len();
            self.sent += 1;
            self.frames.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writer that accepts `room` bytes, and then no more bytes.
    struct Slow {
        taken: Vec<u8>,
        room: usize,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.room == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            let taken = bytes.len().min(self.room);
            self.room -= taken;
            self.taken.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_slow_reader_gets_whole_frames_and_the_newest() {
        let mut slow = Slow {
            taken: Vec::new(),
            room: 3,
        };
        let mut outgoing = Outgoing::default();
        for second in 1..=4_u8 {
            outgoing.replace(vec![vec![second; 2], vec![second + 10; 2]]);
            outgoing.write_to(&mut slow).unwrap();
        }
        assert_eq!(slow.taken, [1, 1, 11]);
        slow.room = 100;
        outgoing.write_to(&mut slow).unwrap();
        assert_eq!(slow.taken, [1, 1, 11, 11, 4, 4, 14, 14]);
        assert_eq!((outgoing.sent, outgoing.skipped, outgoing.bytes), (4, 4, 8));
    }

    #[test]
    fn where_not_all_find_room_each_has_its_turn() {
        let frames: Vec<Vec<u8>> = (0..10).map(|vcpu| vec![vcpu; ROOM / 4]).collect();
        let mut outgoing = Outgoing::default();
        let mut served = Vec::new();
        for _ in 0..5 {
            outgoing.replace(frames.clone());
            let waiting: usize = outgoing.frames.iter().map(Vec::len).sum();
            assert!(waiting <= ROOM);
            served.extend(outgoing.frames.iter().map(|frame| frame[0]));
        }
        served.sort_unstable();
        assert_eq!(served, Vec::from_iter((0..10).flat_map(|vcpu| [vcpu; 2])));
    }

    #[test]
    fn a_connection_that_ends_leaves_no_half_frame_to_the_next() {
        let mut slow = Slow {
            taken: Vec::new(),
            room: 1,
        };
        let mut outgoing = Outgoing::default();
        outgoing.replace(vec![vec![1; 2]]);
        outgoing.write_to(&mut slow).unwrap();
        outgoing.forget();
        outgoing.replace(vec![vec![2; 2]]);
        slow.room = 10;
        outgoing.write_to(&mut slow).unwrap();
        assert_eq!(slow.taken, [1, 2, 2]);
    }
}
