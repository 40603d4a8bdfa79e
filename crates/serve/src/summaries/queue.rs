//! Summaries that wait to be taken: in bounded memory, the oldest gone first, and counted.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use crate::say::say;

/// A week of hours.
const WAITING: usize = 168;
/// That of a host with 500 VMs, at some 100 bytes for each of 40 rows.
const BYTES: usize = 16 << 20;
/// Between two attempts at the end.
const AT_THE_END: Duration = Duration::from_millis(500);

/// A file and its place in the data set.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parcel {
    pub(super) place: PathBuf,
    pub(super) bytes: Vec<u8>,
}

/// From whoever keeps the books, who never waits, to whoever delivers, who may.
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

/// How they fared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) delivered: u64,
    pub(super) dropped: u64,
    pub(super) waiting: usize,
}

impl Queue {
    /// Adds one; drops the oldest where there is no room.
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
                "the summary {} is lost: its place takes none, and too many wait",
                oldest.place.display()
            ));
        }
        self.changed.notify_all();
    }

    /// The oldest, when there is one, which stays until it is delivered; `None` at the end.
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

    /// This one is where it belongs.
    pub(super) fn delivered(&self, parcel: &Arc<Parcel>) {
        let mut state = self.state();
        state.counts.delivered += 1;
        let oldest = state.waiting.front();
        // It may have been dropped meanwhile.
        if oldest.is_some_and(|oldest| Arc::ptr_eq(oldest, parcel)) {
            state.take_oldest();
        }
        self.changed.notify_all();
    }

    /// Waits so long before another attempt; at the end, a moment.
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

    /// No more will come: waits until all are delivered, so long. How many are not.
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
