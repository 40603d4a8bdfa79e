//! The life of a thread that measures: set up, at work, ended, and why.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::{Builder, JoinHandle};

use crate::thread;

/// A thread that has been set up. `E` says why it could not be, or ended early.
#[derive(Debug)]
pub struct MeasuringThread<E> {
    handle: Option<JoinHandle<()>>,
    failure: Arc<OnceLock<E>>,
}

impl<E> MeasuringThread<E>
where
    E: From<thread::Error> + Clone + Send + Sync + 'static,
{
    /// Starts `work` on a thread of this name and waits until it has sent what it
    /// has to say of its set-up. `cpu` is for the error messages.
    pub fn spawn<R: Send + 'static>(
        name: String,
        cpu: u32,
        work: impl FnOnce(&mpsc::SyncSender<R>) -> Result<(), E> + Send + 'static,
    ) -> Result<(MeasuringThread<E>, R), E> {
        let (send, ready) = mpsc::sync_channel(1);
        let failure = Arc::new(OnceLock::new());
        let handle = Builder::new().name(name).spawn({
            let failure = Arc::clone(&failure);
            move || {
                // Whatever a panic left half done is never looked at: the thread
                // takes it along.
                let end = catch_unwind(AssertUnwindSafe(|| work(&send)));
                if let Err(error) = end.unwrap_or_else(|_| Err(thread::Error::Gone(cpu).into())) {
                    failure.get_or_init(|| error);
                }
            }
        });
        let handle = handle.map_err(|error| thread::Error::Spawn {
            cpu,
            errno: error.raw_os_error().unwrap_or(0),
        })?;
        let mut life = MeasuringThread {
            handle: Some(handle),
            failure,
        };
        match ready.recv() {
            Ok(ready) => Ok((life, ready)),
            // It died in its set-up: once it is joined, its reason is there.
            Err(_) => Err(life.join().err().unwrap_or(thread::Error::Gone(cpu).into())),
        }
    }

    /// Whether the thread is still there.
    pub fn running(&self) -> bool {
        self.handle
            .as_ref()
            .is_some_and(|handle| !handle.is_finished())
    }

    /// Why the thread ended early, if it did.
    pub fn failure(&self) -> Option<E> {
        self.failure.get().cloned()
    }

    /// Waits for the thread's end.
    pub fn join(&mut self) -> Result<(), E> {
        if let Some(handle) = self.handle.take() {
            // A panic is among the failures already.
            let _ = handle.join();
        }
        self.failure().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::Error;

    type Life = MeasuringThread<Error>;

    #[test]
    fn a_thread_says_what_it_set_up_and_how_it_ended() {
        let name = "measures".to_owned();
        let (mut life, ready) = Life::spawn(name, 3, |ready| {
            let name = std::thread::current().name().map(str::to_owned);
            ready.send(name).unwrap();
            Err(Error::NoSuchCpu { cpu: 3 })
        })
        .unwrap();
        assert_eq!(ready.as_deref(), Some("measures"));
        assert_eq!(life.join(), Err(Error::NoSuchCpu { cpu: 3 }));
        assert!(!life.running());
    }

    #[test]
    fn a_death_in_the_set_up_is_its_reason() {
        let refused = Life::spawn::<()>("refused".to_owned(), 3, |_| {
            Err(Error::NoSuchCpu { cpu: 3 })
        });
        assert_eq!(refused.unwrap_err(), Error::NoSuchCpu { cpu: 3 });
        let silent = Life::spawn::<()>("silent".to_owned(), 4, |_| Ok(()));
        assert_eq!(silent.unwrap_err(), Error::Gone(4));
    }

    #[test]
    fn a_panic_at_work_is_a_failure() {
        let (mut life, ()) = Life::spawn("panics".to_owned(), 5, |ready| {
            ready.send(()).unwrap();
            std::panic::resume_unwind(Box::new("no message on stderr"));
        })
        .unwrap();
        assert_eq!(life.join(), Err(Error::Gone(5)));
        assert_eq!(life.failure(), Some(Error::Gone(5)));
    }
}
