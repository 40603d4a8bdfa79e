//! Observation of existing threads: BPF watches when they run, and no thread of vmnoise polls.

use anyhow::Context;
use vmnoise_console::units::to_tsc;
use vmnoise_events::{CpuTally, Event};
use vmnoise_host::{Host, Thread};
use vmnoise_tracer::Observer;
use vmnoise_workload::{Failure, MeasuredThread, RunningWorkload, tsc};

/// Observed threads; each CPU may be used by at most one of them.
#[derive(Debug)]
pub struct ObservedThreads {
    host: Host,
    observer: Observer,
    threads: Vec<Thread>,
    tsc_hz: u64,
    cpus: Vec<Watched>,
}

/// CPU that a thread may use, with the counters at the start of the run.
#[derive(Debug)]
struct Watched {
    cpu: u32,
    first_tsc: u64,
    runnable_ns: u64,
    steal_ns: Option<u64>,
    /// Whether the thread was on this CPU at the start. If so, the result reports the CPU even if
    /// the thread never returns to it.
    is_home: bool,
}

impl ObservedThreads {
    /// Creates an observation of these threads.
    pub fn new(threads: Vec<Thread>, tsc_hz: u64, observer: Observer) -> ObservedThreads {
        ObservedThreads {
            host: Host::here(),
            observer,
            threads,
            tsc_hz,
            cpus: Vec::new(),
        }
    }

    fn gone(&self) -> Option<&Thread> {
        self.threads.iter().find(|thread| {
            let place = self.host.place(thread.tid);
            !place.is_ok_and(|place| place.started_ticks == thread.started_ticks)
        })
    }

    fn tally(&self, watched: &Watched) -> Option<CpuTally> {
        let anchor = tsc::anchor();
        let stay = self.observer.stay(watched.cpu, anchor.mono_ns)?;
        let runnable_ns = stay.runnable_ns.saturating_sub(watched.runnable_ns);
        if runnable_ns == 0 && !watched.is_home {
            return None;
        }
        let ago_ns = anchor.mono_ns - stay.settled_mono_ns;
        let last_tsc = anchor
            .before_tsc
            .saturating_sub(to_tsc(ago_ns, self.tsc_hz));
        let last_tsc = last_tsc.max(watched.first_tsc);
        let runtime_tsc = to_tsc(runnable_ns, self.tsc_hz);
        Some(CpuTally {
            cpu: watched.cpu,
            first_tsc: watched.first_tsc,
            last_tsc,
            blind_tsc: Some((last_tsc - watched.first_tsc).saturating_sub(runtime_tsc)),
            steal_clock_ns: stay
                .steal_ns
                .zip(watched.steal_ns)
                .map(|(now_ns, start_ns)| now_ns.saturating_sub(start_ns)),
            ..CpuTally::default()
        })
    }
}

impl RunningWorkload for ObservedThreads {
    fn threads(&self) -> Vec<MeasuredThread> {
        let on_cpus = |thread: &Thread| {
            let tid = thread.tid;
            let cpus = thread.allowed_cpus.clone().into_iter();
            cpus.map(move |cpu| MeasuredThread { cpu, tid })
        };
        self.threads.iter().flat_map(on_cpus).collect()
    }

    fn start(&mut self, _end_tsc: Option<u64>) -> Result<(), Failure> {
        for thread in &self.threads {
            let name = || format!("observing thread {} ({})", thread.tid, thread.comm);
            self.observer
                .locate(thread.tid, &|| tsc::anchor().mono_ns)
                .with_context(name)?;
            let home = self.host.place(thread.tid).with_context(name)?.cpu;
            for &cpu in &thread.allowed_cpus {
                let anchor = tsc::anchor();
                let stay = self.observer.stay(cpu, anchor.mono_ns).unwrap_or_default();
                self.cpus.push(Watched {
                    cpu,
                    first_tsc: anchor.after_tsc,
                    runnable_ns: stay.runnable_ns,
                    steal_ns: stay.steal_ns,
                    is_home: cpu == home,
                });
            }
        }
        Ok(())
    }

    /// Does nothing, because no thread of this workload needs a lease.
    fn renew(&mut self, _until_tsc: u64) {}

    fn drain(&mut self, _sink: &mut dyn FnMut(Event)) {}

    fn tallies(&self) -> Vec<CpuTally> {
        let tally = |watched| self.tally(watched);
        self.cpus.iter().filter_map(tally).collect()
    }

    fn dropped(&self) -> u64 {
        0
    }

    fn clock_steps_back(&self) -> u64 {
        0
    }

    fn running(&self) -> bool {
        false
    }

    fn failure(&self) -> Option<Failure> {
        let gone = self.gone()?;
        Some(format!("thread {} ({}) has ended", gone.tid, gone.comm).into())
    }

    fn stop(&mut self) {}
}
