//! A disturber with a known name, and the reports of a tracer.

use std::{
    io::{self, Write},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::thread::{CpuSet, gettid, sched_setaffinity};
use vmnoise_events::{Activity, ActivityKind, Event};
use vmnoise_host::Host;
use vmnoise_tracer::Tracer;

/// Returns a lock that prevents tests from running at the same time if they use the same CPU or all
/// programs.
pub(super) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints that the calling test has not run. `vmnoise_testbed::skipped` describes the program that
/// reads this line.
pub(super) fn skipped(reason: &str) {
    let thread = thread::current();
    let name = thread.name().unwrap_or("a test");
    let _ = writeln!(io::stderr(), "skipped: {name}: {reason}");
}

/// Returns a CPU that is measured, and another CPU from which the tracer is drained.
pub(super) fn two_cpus() -> (u32, u32) {
    let allowed = Host::here().allowed_cpus().unwrap();
    assert!(
        allowed.len() > 1,
        "these tests need two CPUs, and may use {allowed:?}"
    );
    (allowed[allowed.len() - 1], allowed[0])
}

pub(super) fn pin(cpu: u32) {
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    sched_setaffinity(None, &set).unwrap();
}

pub(super) fn own_tid() -> u32 {
    gettid().as_raw_nonzero().get() as u32
}

/// A thread on one CPU that alternates between a little work and a little sleep.
pub(super) struct Disturber {
    stop: Arc<AtomicBool>,
    pub(super) tid: u32,
    thread: Option<JoinHandle<()>>,
}

impl Disturber {
    pub(super) fn on(cpu: u32, name: &str) -> Disturber {
        let stop = Arc::new(AtomicBool::new(false));
        let tid = Arc::new(AtomicU32::new(0));
        let (stopped, reported) = (Arc::clone(&stop), Arc::clone(&tid));
        let work = move || {
            pin(cpu);
            reported.store(own_tid(), Relaxed);
            while !stopped.load(Relaxed) {
                let until = Instant::now() + Duration::from_millis(2);
                while Instant::now() < until {}
                thread::sleep(Duration::from_millis(3));
            }
        };
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(work)
            .unwrap();
        while tid.load(Relaxed) == 0 {
            thread::yield_now();
        }
        let tid = tid.load(Relaxed);
        Disturber {
            stop,
            tid,
            thread: Some(thread),
        }
    }
}

impl Drop for Disturber {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// All reports of a tracer so far.
#[derive(Default)]
pub(super) struct Reported {
    pub(super) names: Vec<String>,
    pub(super) activities: Vec<Activity>,
}

impl Reported {
    pub(super) fn drain(&mut self, tracer: &mut Tracer) {
        tracer
            .drain(&mut |event| match event {
                Event::Source(source) => {
                    assert_eq!(source.id.0 as usize, self.names.len(), "ids have no holes");
                    self.names.push(source.name.into());
                }
                Event::Activity(activity) => self.activities.push(activity),
                other => panic!("a tracer says nothing of {other:?}"),
            })
            .unwrap();
    }

    pub(super) fn drain_for(&mut self, tracer: &mut Tracer, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            thread::sleep(Duration::from_millis(50));
            self.drain(tracer);
        }
    }

    pub(super) fn named<'a>(
        &'a self,
        kind: ActivityKind,
        name: &'a str,
    ) -> impl Iterator<Item = &'a Activity> {
        self.activities
            .iter()
            .filter(move |it| it.kind == kind && self.names[it.source.0 as usize] == name)
    }
}
