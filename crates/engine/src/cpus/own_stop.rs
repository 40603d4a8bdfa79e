//! Detection of a stop of this process (Ctrl-Z and `fg`) in runs without a tracer. A stop lies
//! between two drains that are far apart, if SIGCONT came between them. SIGCONT alone is no
//! evidence, because other processes may send it to a running process. A debugger does not send
//! SIGCONT, so its stops are not seen.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use signal_hook::consts::SIGCONT;
use vmnoise_events::{Activity, ActivityKind, Event, Source, SourceId};

/// Only source of a run without a tracer.
const NOBODY: SourceId = SourceId(0);

/// Least time between the two drains around a stop. A running loop drains every 20 ms, and is
/// seldom late by more than a few ticks. A shorter stop appears as a gap.
const FAR_NS: u64 = 100_000_000;
/// Time to wait for the signal handler, which may run on another thread after the loop.
const HANDLER: Duration = Duration::from_millis(20);

/// Detector of times in which this process was stopped (Ctrl-Z and `fg`).
#[derive(Debug)]
pub struct OwnStop {
    goes_on: Arc<AtomicBool>,
    /// Whether the signal had come by the last drain, although this drain soon followed the drain
    /// before. The process may then have been stopped after the last drain had read the clock.
    went_on: bool,
    /// Time of the last drain, CLOCK_MONOTONIC in nanoseconds.
    last_drain_ns: Option<u64>,
    is_named: bool,
}

impl OwnStop {
    /// Begins to catch SIGCONT.
    ///
    /// # Errors
    /// If the kernel refuses the handler.
    pub fn watch() -> io::Result<OwnStop> {
        let goes_on = Arc::<AtomicBool>::default();
        signal_hook::flag::register(SIGCONT, Arc::clone(&goes_on))?;
        Ok(OwnStop {
            goes_on,
            went_on: false,
            last_drain_ns: None,
            is_named: false,
        })
    }

    /// Reports an activity `Stopped` for each of these CPUs if the process was stopped since the
    /// last call.
    pub fn report(&mut self, cpus: &[u32], drain_ns: u64, sink: &mut dyn FnMut(Event)) {
        let last_ns = self.last_drain_ns.replace(drain_ns);
        let is_far = last_ns.is_some_and(|last_ns| drain_ns.saturating_sub(last_ns) > FAR_NS);
        if is_far && !self.went_on && !self.goes_on.load(Ordering::Relaxed) {
            std::thread::sleep(HANDLER);
        }
        let goes_on = self.goes_on.swap(false, Ordering::Relaxed);
        let was_stopped = is_far && (goes_on || self.went_on);
        self.went_on = goes_on && !is_far;
        let Some(start_mono_ns) = last_ns.filter(|_| was_stopped) else {
            return;
        };
        if !std::mem::replace(&mut self.is_named, true) {
            let (id, name) = (NOBODY, "unknown".into());
            sink(Event::Source(Source { id, name }));
        }
        for cpu in cpus {
            sink(Event::Activity(Activity {
                cpu: *cpu,
                kind: ActivityKind::Stopped,
                start_mono_ns,
                end_mono_ns: drain_ns,
                source: NOBODY,
                steal_ns: 0,
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the stops that are reported for these drains. Each drain has its time, and says
    /// whether SIGCONT came before.
    fn reported(drains: &[(u64, bool)]) -> Vec<(u64, u64)> {
        let mut own_stop = OwnStop {
            goes_on: Arc::default(),
            went_on: false,
            last_drain_ns: None,
            is_named: false,
        };
        let mut reported = Vec::new();
        for (drain_ns, signal) in drains {
            own_stop.goes_on.fetch_or(*signal, Ordering::Relaxed);
            own_stop.report(&[1], *drain_ns, &mut |event| {
                if let Event::Activity(it) = event {
                    reported.push((it.start_mono_ns, it.end_mono_ns));
                }
            });
        }
        reported
    }

    #[test]
    fn who_is_told_to_go_on_while_it_runs_was_not_stopped() {
        let near_ns = FAR_NS / 5;
        let drains = [(0, false), (near_ns, true), (2 * near_ns, false)];
        assert_eq!(reported(&drains), []);
        // A loop that is late long after the signal was not stopped either.
        let later = [(3 * near_ns, false), (9 * FAR_NS, false)];
        assert_eq!(reported(&[&drains[..], &later].concat()), []);
    }

    #[test]
    fn a_stop_lies_between_drains_that_are_far_apart() {
        let far_ns = FAR_NS + 1;
        assert_eq!(
            reported(&[(5, false), (5 + far_ns, true)]),
            [(5, 5 + far_ns)]
        );
        // The signal came after the drain had read the clock.
        let drains = [(0, false), (5, true), (5 + far_ns, false)];
        assert_eq!(reported(&drains), [(5, 5 + far_ns)]);
    }
}
