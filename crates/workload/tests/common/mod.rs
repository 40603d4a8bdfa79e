//! Helper functions of the workload tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use vmnoise_events::{Event, Gap};
use vmnoise_workload::{RunningWorkload, thread};

/// Returns every gap since the last call of this function.
pub fn gaps(workload: &mut dyn RunningWorkload) -> Vec<Gap> {
    let mut gaps = Vec::new();
    workload.drain(&mut |event| match event {
        Event::Gap(gap) => gaps.push(gap),
        other => panic!("no gap: {other:?}"),
    });
    gaps
}

/// A thread that keeps one CPU busy until this value is dropped.
pub struct BusyThread {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl BusyThread {
    /// Starts a thread that keeps this CPU busy.
    pub fn on(cpu: u32) -> BusyThread {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                thread::pin(&[cpu]).expect("the CPU to burn exists and is allowed");
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }
        });
        BusyThread {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for BusyThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread has no result.
            let _ = thread.join();
        }
    }
}
