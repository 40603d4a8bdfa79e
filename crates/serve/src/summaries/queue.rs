//! Queue of summaries in limited memory. If it is full, the oldest summaries are dropped and
//! counted.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use crate::say::say;

/// Largest number of queued summaries: one week.
const WAITING: usize = 168;
/// Largest size of all queued summaries in bytes. This is one week of a host with 500 VMs and 40
/// rows of 100 bytes for each VM.
const BYTES: usize = 16 << 20;
/// Pause between two attempts after the queue was closed.
const AT_THE_END: Duration = Duration::from_millis(500);

/// A file and its path in the data set.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parcel {
    pub(super) place: PathBuf,
    pub(super) bytes: Vec<u8>,
}

/// Passes summaries from the main loop to the thread that delivers them. The main loop never waits,
/// but this thread may wait.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Arc<Parcel>>,
    bytes: usize,
    is_closed: bool,
    counts: Counts,
}

/// Number of summaries by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) delivered: u64,
    pub(super) dropped: u64,
    pub(super) waiting: usize,
}

impl Queue {
    /// Adds a summary. If there is no room, drops the oldest ones.
    pub(super) fn push(&self, parcel: Parcel) {
        let mut state = self.state();
        state.bytes += parcel.bytes.len();
        state.waiting.push_back(Arc::new(parcel));
        while state.waiting.len() > WAITING || (state.bytes > BYTES && state.waiting.len() > 1) {
            let Some(oldest) = state.take_oldest() else {
                break;
            };
            state.counts.dropped += 1;
            say(&format!(
                "the summary {} is lost, because too many summaries wait for delivery",
                oldest.place.display()
            ));
        }
        self.changed.notify_all();
    }

    /// Waits for the oldest summary, and returns it. The summary stays in the queue until it is
    /// delivered. Returns `None` if the queue is closed and empty.
    pub(super) fn next(&self) -> Option<Arc<Parcel>> {
        let mut state = self.state();
        loop {
            match state.waiting.front() {
                Some(oldest) => return Some(Arc::clone(oldest)),
                None if state.is_closed => return None,
                None => {
                    state = self
                        .changed
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner)
                }
            }
        }
    }

    /// Counts a delivered summary, and removes it from the queue.
    pub(super) fn delivered(&self, parcel: &Arc<Parcel>) {
        let mut state = self.state();
        state.counts.delivered += 1;
        let oldest = state.waiting.front();
        // The summary may have been dropped during the delivery.
        if oldest.is_some_and(|oldest| Arc::ptr_eq(oldest, parcel)) {
            state.take_oldest();
        }
        self.changed.notify_all();
    }

    /// Waits for `time` before another attempt. After the queue was closed, waits only for
    /// [`AT_THE_END`].
    pub(super) fn pause(&self, time: Duration) {
        let is_open = |state: &mut State| !state.is_closed;
        let paused = self.changed.wait_timeout_while(self.state(), time, is_open);
        let (state, _) = paused.unwrap_or_else(PoisonError::into_inner);
        let is_closed = state.is_closed;
        drop(state);
        if is_closed {
            sleep(AT_THE_END);
        }
    }

    /// Closes the queue. Waits at most `time` for the delivery of the queued summaries. Returns the
    /// number of summaries that were not delivered.
    pub(super) fn close(&self, time: Duration) -> usize {
        let mut state = self.state();
        state.is_closed = true;
        self.changed.notify_all();
        let is_any_left = |state: &mut State| !state.waiting.is_empty();
        let waited = self.changed.wait_timeout_while(state, time, is_any_left);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting.len()
    }

    pub(super) fn counts(&self) -> Counts {
        let state = self.state();
        Counts {
            waiting: state.waiting.len(),
            ..state.counts
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take_oldest(&mut self) -> Option<Arc<Parcel>> {
        let oldest = self.waiting.pop_front()?;
        self.bytes -= oldest.bytes.len();
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_TIME: Duration = Duration::ZERO;

    fn parcel(number: usize, bytes: usize) -> Parcel {
        Parcel {
            place: number.to_string().into(),
            bytes: vec![0; bytes],
        }
    }

    fn oldest(queue: &Queue) -> PathBuf {
        queue
            .next()
            .unwrap_or_else(|| panic!("none waits"))
            .place
            .clone()
    }

    #[test]
    fn the_oldest_go_where_too_many_wait_and_are_counted() {
        let queue = Queue::default();
        for number in 0..WAITING + 3 {
            queue.push(parcel(number, 1));
        }
        let counts = Counts {
            delivered: 0,
            dropped: 3,
            waiting: WAITING,
        };
        assert_eq!((queue.counts(), oldest(&queue)), (counts, "3".into()));
    }

    #[test]
    fn so_they_do_where_too_much_waits_but_not_the_last_one() {
        let queue = Queue::default();
        for number in 0..3 {
            queue.push(parcel(number, BYTES / 2));
        }
        assert_eq!((queue.counts().dropped, oldest(&queue)), (1, "1".into()));
        queue.push(parcel(9, 2 * BYTES));
        assert_eq!((queue.counts().dropped, oldest(&queue)), (3, "9".into()));
    }

    #[test]
    fn one_that_was_dropped_on_its_way_takes_no_other_with_it() {
        let queue = Queue::default();
        queue.push(parcel(0, 1));
        let under_way = queue.next().unwrap_or_else(|| panic!("none waits"));
        for number in 1..=WAITING {
            queue.push(parcel(number, 1));
        }
        queue.delivered(&under_way);
        let counts = Counts {
            delivered: 1,
            dropped: 1,
            waiting: WAITING,
        };
        assert_eq!((queue.counts(), oldest(&queue)), (counts, "1".into()));
    }

    #[test]
    fn who_ends_knows_how_many_are_left() {
        let queue = Queue::default();
        for number in 0..2 {
            queue.push(parcel(number, 1));
        }
        assert_eq!(queue.close(NO_TIME), 2);
        while let Some(parcel) = queue.next() {
            queue.delivered(&parcel);
        }
        assert_eq!(queue.close(NO_TIME), 0);
    }
}
