//! Barrier at which all threads of a workload wait, so that they start together.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Waiting,
    Open,
    Closed,
}

/// Barrier that all threads of one workload share.
#[derive(Debug, Default)]
pub struct StartBarrier {
    state: Mutex<State>,
    changed: Condvar,
}

impl StartBarrier {
    /// Blocks until the barrier is opened or closed. Returns `true` if the thread must start, and
    /// `false` if it must end.
    pub fn wait(&self) -> bool {
        let waiting = self
            .changed
            .wait_while(self.state(), |state| *state == State::Waiting);
        *waiting.unwrap_or_else(PoisonError::into_inner) == State::Open
    }

    /// Starts all threads.
    pub fn open(&self) {
        self.change(State::Open);
    }

    /// Ends all threads that wait at the barrier now or will wait later.
    pub fn close(&self) {
        self.change(State::Closed);
    }

    /// Returns whether [`StartBarrier::open`] was called and [`StartBarrier::close`] was not called
    /// after it.
    pub fn is_open(&self) -> bool {
        *self.state() == State::Open
    }

    /// Returns whether [`StartBarrier::close`] was called.
    pub fn is_closed(&self) -> bool {
        *self.state() == State::Closed
    }

    fn change(&self, state: State) {
        *self.state() = state;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn the_barrier_opens_or_sends_away() {
        for (act, passed) in [
            (StartBarrier::open as fn(&StartBarrier), true),
            (StartBarrier::close, false),
        ] {
            let barrier = Arc::new(StartBarrier::default());
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    thread::spawn({
                        let barrier = Arc::clone(&barrier);
                        move || barrier.wait()
                    })
                })
                .collect();
            assert!(!barrier.is_open() && !barrier.is_closed());
            act(&barrier);
            assert_eq!((barrier.is_open(), barrier.is_closed()), (passed, !passed));
            assert!(
                threads
                    .into_iter()
                    .all(|thread| thread.join().unwrap() == passed)
            );
        }
    }
}
