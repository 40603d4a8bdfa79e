//! The life of a thread that measures: set up with all rights there are, at work with none, ended,
//! and why.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::{Builder, JoinHandle};

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use crate::{Error, thread};

/// What a thread keeps at its work. Before Linux 5.19 steal clocks are not read without.
const KEPT: CapabilitySet = CapabilitySet::BPF;

/// The end of a thread's set-up, for which somebody waits.
#[derive(Debug)]
pub struct SetUp<R>(mpsc::SyncSender<R>);

impl<R> SetUp<R> {
    /// Says what there is to say of it, and gives up the rights that it took.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn is_done(&self, message: R) -> Result<(), thread::Error> {
        give_up_rights()?;
        // Nobody waits any more if whoever did is gone.
        let _ = self.0.send(message);
        Ok(())
    }
}

fn give_up_rights() -> Result<(), thread::Error> {
    let kept = capabilities(None).map(|held| held.effective.intersection(KEPT));
    let kept = kept.and_then(|kept| {
        let sets = CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        };
        set_capabilities(None, sets)
    });
    kept.map_err(|errno| thread::Error::Rights {
        errno: errno.raw_os_error(),
    })
}

/// A thread that has been set up.
#[derive(Debug)]
pub struct MeasuringThread {
    handle: Option<JoinHandle<()>>,
    failure: Arc<OnceLock<Error>>,
}

impl MeasuringThread {
    /// Starts `work` on a thread of this name and waits until it has sent what it
    /// has to say of its set-up. `cpu` is for the error messages.
    pub fn spawn<R: Send + 'static>(
        name: String,
        cpu: u32,
        work: impl FnOnce(&SetUp<R>) -> Result<(), Error> + Send + 'static,
    ) -> Result<(MeasuringThread, R), Error> {
        let (send, ready) = mpsc::sync_channel(1);
        let failure = Arc::new(OnceLock::new());
        let handle = Builder::new().name(name).spawn({
            let failure = Arc::clone(&failure);
            move || {
                // Whatever a panic left half done is never looked at: the thread
                // takes it along.
                let end = catch_unwind(AssertUnwindSafe(|| work(&SetUp(send))));
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
    pub fn failure(&self) -> Option<Error> {
        self.failure.get().cloned()
    }

    /// Waits for the thread's end.
    pub fn join(&mut self) -> Result<(), Error> {
        if let Some(handle) = self.handle.take() {
            // A panic is among the failures already.
            let _ = handle.join();
        }
        self.failure().map_or(Ok(()), Err)
    }
}

/// Checks that the calling thread is still where it was pinned. The kernel moves a
/// pinned thread only off a CPU that goes offline or leaves the cpuset. It costs no
/// system call: getcpu is in the vDSO.
pub fn stays_on(cpu: u32, thread: &'static str) -> Result<(), Error> {
    let now_on = u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(u32::MAX);
    match now_on == cpu {
        true => Ok(()),
        false => Err(Error::Moved {
            cpu,
            thread,
            now_on,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_CPU: Error = Error::Thread(thread::Error::NoSuchCpu { cpu: 3 });

    fn gone(cpu: u32) -> Error {
        thread::Error::Gone(cpu).into()
    }

    #[test]
    fn a_thread_says_what_it_set_up_and_how_it_ended() {
        let name = "measures".to_owned();
        let (mut life, ready) = MeasuringThread::spawn(name, 3, |ready| {
            let name = std::thread::current().name().map(str::to_owned);
            ready.is_done(name)?;
            Err(NO_CPU)
        })
        .unwrap();
        assert_eq!(ready.as_deref(), Some("measures"));
        assert_eq!(life.join(), Err(NO_CPU));
        assert!(!life.running());
    }

    #[test]
    fn a_death_in_the_set_up_is_its_reason() {
        let refused = MeasuringThread::spawn::<()>("refused".to_owned(), 3, |_| Err(NO_CPU));
        assert_eq!(refused.unwrap_err(), NO_CPU);
        let silent = MeasuringThread::spawn::<()>("silent".to_owned(), 4, |_| Ok(()));
        assert_eq!(silent.unwrap_err(), gone(4));
    }

    #[test]
    fn a_panic_at_work_is_a_failure() {
        let (mut life, ()) = MeasuringThread::spawn("panics".to_owned(), 5, |ready| {
            ready.is_done(())?;
            std::panic::resume_unwind(Box::new("no message on stderr"));
        })
        .unwrap();
        assert_eq!(life.join(), Err(gone(5)));
        assert_eq!(life.failure(), Some(gone(5)));
    }
}
