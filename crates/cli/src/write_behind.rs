//! A file, or stdout, that a thread of its own writes: a disk that is slow, full or gone, and a
//! reader that reads nothing, hold nobody up who drains events.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use vmnoise_rights::threads;

use crate::interrupt;

/// How often a disk that takes nothing is looked at again.
const LOOK: Duration = Duration::from_millis(50);
/// After so many bytes it is noted that the disk took them: a slow one is not one that
/// takes nothing.
const PIECE: usize = 64 << 10;
/// How long it is waited for after Ctrl-C.
const PATIENCE: Duration = Duration::from_secs(5);

/// Takes at once what is written to it. Its user asks [`has_room`](Self::has_room) before: what
/// is written all the same waits, too.
#[derive(Debug)]
pub struct WriteBehind {
    queue: Arc<Queue>,
    room: Room,
}

/// What may wait, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Of what can be left out.
    pub most: usize,
    /// With what cannot: who writes more has nowhere to put it.
    pub all: usize,
}

/// What the disk has not taken when nobody waits for it any more.
#[derive(Debug, thiserror::Error)]
pub enum Unwritten {
    /// It refused.
    #[error(transparent)]
    Refused(#[from] io::Error),
    /// Ctrl-C asked for the end.
    #[error("the last {bytes} bytes were not taken for 5 s, and Ctrl-C asked for the end")]
    GivenUp {
        /// How much is missing.
        bytes: usize,
    },
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    /// Of all that wait, and of the one that is being written. Changes under the lock.
    bytes: AtomicUsize,
    /// More waits, or less.
    moved: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Vec<u8>>,
    /// Nothing is written any more.
    refused: Option<io::Error>,
    /// Nothing more comes.
    is_closed: bool,
}

impl WriteBehind {
    /// Starts the thread. It runs where the caller may.
    ///
    /// # Errors
    /// If the kernel refuses another thread.
    pub fn new(file: impl Write + Send + 'static, room: Room) -> io::Result<WriteBehind> {
        let queue = Arc::<Queue>::default();
        let its_queue = Arc::clone(&queue);
        threads::spawn("vmnoise-write", &[], move || its_queue.write_to(file))?;
        Ok(WriteBehind { queue, room })
    }

    /// Whether less waits than there is room for.
    pub fn has_room(&self) -> bool {
        self.queue.bytes() < self.room.most
    }

    /// Whether so little waits that the disk can be said to keep up.
    pub fn keeps_up(&self) -> bool {
        self.queue.bytes() <= self.room.most / 2
    }

    /// Whether nothing waits. Whoever shows only the latest state draws when this is true.
    pub fn is_idle(&self) -> bool {
        self.queue.bytes() == 0
    }

    /// Whether more waits than may wait in all.
    pub fn is_lost(&self) -> bool {
        self.queue.bytes() > self.room.all
    }

    /// Whether nothing is written any more: it was refused.
    pub fn is_refused(&self) -> bool {
        self.queue.lock().refused.is_some()
    }

    /// Ends what waits and waits for it; once, after a while, `on_wait` hears for how many bytes.
    ///
    /// # Errors
    /// What the kernel says, or [`Unwritten::GivenUp`].
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
    /// What waits is written all the same, as long as the process is there.
    fn drop(&mut self) {
        self.queue.lock().is_closed = true;
        self.queue.moved.notify_all();
    }
}

impl Write for WriteBehind {
    /// Takes all of it.
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

    /// What waits reaches the disk as soon as that takes it.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whoever writes on is told each time.
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

    /// No code panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes until nothing more comes, or the file refuses.
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
pub mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::*;

    /// A file on a disk that hangs while somebody else holds the lock.
    #[derive(Debug, Clone, Default)]
    pub struct Hanging(pub Arc<Mutex<Vec<u8>>>);

    impl Write for Hanging {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

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
        // Asked after it has ended.
        let queue = Arc::clone(&file.queue);
        file.end(|_| {}).unwrap();
        assert_eq!(queue.bytes(), 0);
        let written = disk.0.lock().unwrap();
        assert_eq!(*written, [[1; 50], [2; 50], [3; 50]].concat());
    }

    #[test]
    fn each_piece_that_the_disk_takes_is_seen_at_once() {
        /// Says what still waits whenever it is given something.
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
        // Nothing waits for a thread that is gone.
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
