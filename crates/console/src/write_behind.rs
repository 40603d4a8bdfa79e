//! Writer to a file or to stdout that uses a separate thread. A slow disk, or a reader that stops
//! reading, therefore cannot delay the thread that drains events.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use vmnoise_rights::threads;

use crate::interrupt;

/// Interval at which the progress of the disk is checked.
const LOOK: Duration = Duration::from_millis(50);
/// Largest size of one write, in bytes. Each write shows progress, so a slow disk is not mistaken
/// for a hung disk.
const PIECE: usize = 64 << 10;
/// Time without progress after which Ctrl-C gives up the bytes that still wait.
const PATIENCE: Duration = Duration::from_secs(5);

/// Writer that accepts bytes immediately and writes them later. The caller checks
/// [`has_room`](Self::has_room) first. The writer accepts bytes above the limit, too.
#[derive(Debug)]
pub struct WriteBehind {
    queue: Arc<Queue>,
    room: Room,
}

/// Limits for the bytes that may wait.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Limit in bytes. Above this limit, callers drop the data that may be dropped.
    pub most: usize,
    /// Limit in bytes for all data. Above this limit, the file is lost.
    pub all: usize,
}

/// Reason why not all bytes were written.
#[derive(Debug, thiserror::Error)]
pub enum Unwritten {
    /// The disk refused them.
    #[error(transparent)]
    Refused(#[from] io::Error),
    /// The disk took nothing for 5 s, and Ctrl-C was pressed.
    #[error("the last {bytes} bytes could not be written for 5 s, and Ctrl-C ended the wait")]
    GivenUp {
        /// Number of bytes that are missing.
        bytes: usize,
    },
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    /// Number of bytes that wait or are being written. It changes only while the lock is held.
    bytes: AtomicUsize,
    /// Signalled when the queue changes.
    moved: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Vec<u8>>,
    /// Error of the disk, after which nothing is written any more.
    refused: Option<io::Error>,
    /// Whether no more bytes will come.
    is_closed: bool,
}

impl WriteBehind {
    /// Starts the thread, which may run on the same CPUs as the caller.
    ///
    /// # Errors
    /// If the kernel refuses another thread.
    pub fn new(file: impl Write + Send + 'static, room: Room) -> io::Result<WriteBehind> {
        let queue = Arc::<Queue>::default();
        let its_queue = Arc::clone(&queue);
        threads::spawn("vmnoise-write", &[], move || its_queue.write_to(file))?;
        Ok(WriteBehind { queue, room })
    }

    /// Returns whether fewer than [`Room::most`] bytes wait.
    pub fn has_room(&self) -> bool {
        self.queue.bytes() < self.room.most
    }

    /// Returns whether the disk keeps up: at most half of [`Room::most`] bytes wait.
    pub fn keeps_up(&self) -> bool {
        self.queue.bytes() <= self.room.most / 2
    }

    /// Returns whether no bytes wait. A view that shows only the latest state draws only then.
    pub fn is_idle(&self) -> bool {
        self.queue.bytes() == 0
    }

    /// Returns whether more than [`Room::all`] bytes wait.
    pub fn is_lost(&self) -> bool {
        self.queue.bytes() > self.room.all
    }

    /// Returns whether the disk refused a write, so that nothing is written any more.
    pub fn is_refused(&self) -> bool {
        self.queue.lock().refused.is_some()
    }

    /// Waits until all bytes are written. After 5 s, calls `on_wait` once with the number of bytes
    /// that still wait.
    ///
    /// # Errors
    /// The kernel's error, or [`Unwritten::GivenUp`].
    pub fn end(self, on_wait: impl FnOnce(usize)) -> Result<(), Unwritten> {
        let mut on_wait = Some(on_wait);
        let mut state = self.queue.lock();
        state.is_closed = true;
        self.queue.moved.notify_all();
        let (mut bytes, mut last, begin) = (self.queue.bytes(), Instant::now(), Instant::now());
        while self.queue.bytes() > 0 && state.refused.is_none() {
            let waited = self.queue.moved.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            let left = self.queue.bytes();
            if left < bytes {
                (bytes, last) = (left, Instant::now());
            }
            if interrupt::was_asked() && last.elapsed() > PATIENCE {
                return Err(Unwritten::GivenUp { bytes });
            }
            if begin.elapsed() > PATIENCE
                && let Some(on_wait) = on_wait.take()
            {
                on_wait(bytes);
            }
        }
        match state.refused.take() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}

impl Drop for WriteBehind {
    /// Lets the thread write the bytes that still wait, as long as the process lives.
    fn drop(&mut self) {
        self.queue.lock().is_closed = true;
        self.queue.moved.notify_all();
    }
}

impl Write for WriteBehind {
    /// Accepts all bytes. Fails if the disk has refused an earlier write.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.queue.lock();
        if let Some(error) = &state.refused {
            return Err(again(error));
        }
        self.queue.bytes.fetch_add(bytes.len(), Ordering::Relaxed);
        state.waiting.push_back(bytes.to_vec());
        self.queue.moved.notify_all();
        Ok(bytes.len())
    }

    /// Does nothing: the thread writes as soon as the disk accepts bytes.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns a copy of the error, because every later write reports it again.
fn again(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => error.kind().into(),
    }
}

impl Queue {
    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Locks the state; poisoning is ignored, because no code panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes until the queue is closed and empty, or until the file refuses a write.
    fn write_to(&self, mut file: impl Write) {
        let mut state = self.lock();
        loop {
            let Some(bytes) = state.waiting.pop_front() else {
                if state.is_closed {
                    return;
                }
                let waited = self.moved.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                drop(state);
                let written = file.write(&rest[..rest.len().min(PIECE)]);
                state = self.lock();
                let refused = match written {
                    Ok(0) => ErrorKind::WriteZero.into(),
                    Ok(written) => {
                        rest = &rest[written..];
                        self.bytes.fetch_sub(written, Ordering::Relaxed);
                        self.moved.notify_all();
                        continue;
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) => error,
                };
                state.waiting.clear();
                self.bytes.store(0, Ordering::Relaxed);
                state.refused = Some(refused);
                self.moved.notify_all();
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::*;
    use crate::fixtures::Hanging;

    const ROOM: Room = Room {
        most: 100,
        all: 1_000,
    };

    #[test]
    fn nobody_waits_for_a_disk_that_hangs_and_nothing_is_lost_on_the_way() {
        let disk = Hanging::default();
        let mut file = WriteBehind::new(disk.clone(), ROOM).unwrap();
        let held = disk.0.lock().unwrap();
        for (number, has_room) in [(1, true), (2, true), (3, false)] {
            assert_eq!(file.has_room(), has_room);
            file.write_all(&[number; 50]).unwrap();
        }
        assert!(!file.keeps_up());
        drop(held);
        // The queue is checked below, after the writer has ended.
        let queue = Arc::clone(&file.queue);
        file.end(|_| {}).unwrap();
        assert_eq!(queue.bytes(), 0);
        let written = disk.0.lock().unwrap();
        assert_eq!(*written, [[1; 50], [2; 50], [3; 50]].concat());
    }

    #[test]
    fn each_piece_that_the_disk_takes_is_seen_at_once() {
        /// Writer that records, at each write, how many bytes still wait.
        struct Watching(Arc<Queue>, Arc<Mutex<Vec<usize>>>);
        impl Write for Watching {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.1.lock().unwrap().push(self.0.bytes());
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let queue = Arc::<Queue>::default();
        let seen = Arc::default();
        let disk = Watching(Arc::clone(&queue), Arc::clone(&seen));
        let all = PIECE * 2 + 1;
        queue.bytes.store(all, Ordering::Relaxed);
        queue.lock().waiting.push_back(vec![1; all]);
        queue.lock().is_closed = true;
        queue.write_to(disk);
        assert_eq!(*seen.lock().unwrap(), [all, PIECE + 1, 1]);
        assert_eq!(queue.bytes(), 0);
    }

    #[test]
    fn what_the_disk_refuses_is_reported_at_each_write_and_at_the_end() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut file = WriteBehind::new(Full, ROOM).unwrap();
        file.write_all(b"first").unwrap();
        let refused = loop {
            if let Err(error) = file.write_all(b"next") {
                break error;
            }
        };
        assert_eq!(refused.kind(), ErrorKind::StorageFull);
        // The thread has ended, so nothing may wait for it.
        assert!(file.write_all(b"once more").is_err());
        assert!(file.end(|_| {}).is_err());

        let mut file = WriteBehind::new(Full, ROOM).unwrap();
        file.write_all(b"last").unwrap();
        assert!(matches!(
            file.end(|_| {}),
            Err(Unwritten::Refused(error)) if error.kind() == ErrorKind::StorageFull
        ));
    }
}
