//! An observed thread: the CPU on which it is, and the time for which it could have used this CPU.

use std::sync::Arc;

use libbpf_rs::Object;
use vmnoise_host::Host;

use crate::{mapped::MappedCpus, steal::StealClock};

/// Longest possible interrupt, in ns. If an interrupt seems to last longer, its end was lost.
const LOST_END_NS: u64 = 1_000_000_000;
/// Largest number of attempts to locate a thread. An attempt fails if the thread moves during it.
const ATTEMPTS: usize = 10;

/// Times of an observed thread on one CPU since [`crate::Tracer::attach`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadStay {
    /// Instant up to which [`crate::Tracer::drain`] reports everything, CLOCK_MONOTONIC in ns. It
    /// is now, or the begin of the activity that currently keeps the thread off the CPU.
    pub settled_mono_ns: u64,
    /// Time for which the thread ran or waited on this CPU up to `settled_mono_ns`, in ns.
    pub runnable_ns: u64,
    /// Increase of the CPU's steal clock while the thread was on this CPU, up to now, in ns. `None`
    /// if the clock cannot be read at any time.
    pub steal_ns: Option<u64>,
}

/// Reader of observed threads. It can be used after the [`crate::Tracer`] is dropped, but its
/// values then no longer change.
#[derive(Debug)]
pub struct Observer {
    pub(crate) object: Arc<Object>,
    pub(crate) cpus: Arc<MappedCpus>,
    pub(crate) steal: StealClock,
    pub(crate) steal_sampled: bool,
}

impl Observer {
    /// Finds the CPU of a watched thread. A thread that runs all the time causes no event that
    /// shows its CPU. Call this function once, after [`crate::Tracer::attach`]. From then on, the
    /// programs observe every move. `now_mono_ns` reads CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// If the thread has ended.
    pub fn locate(&self, tid: u32, now_mono_ns: &dyn Fn() -> u64) -> std::io::Result<()> {
        let host = Host::here();
        for _ in 0..ATTEMPTS {
            let place = host.place(tid)?;
            if !place.runnable {
                return Ok(());
            }
            let since_ns = now_mono_ns();
            let steal_ns = self.steal_ns(place.cpu).unwrap_or(0);
            self.cpus.set_here(place.cpu, since_ns, steal_ns);
            // The thread may have moved away before its CPU was set, so that no program has reset
            // it.
            if host.place(tid)? == place {
                return Ok(());
            }
            self.cpus.unset_here(place.cpu, since_ns);
        }
        Ok(())
    }

    /// Returns the times of an observed thread on this CPU up to `now_mono_ns`; `None` if there is
    /// no such CPU. `now_mono_ns` must be read just before the call (CLOCK_MONOTONIC in ns).
    pub fn stay(&self, cpu: u32, now_mono_ns: u64) -> Option<ThreadStay> {
        let found = self.cpus.whereabouts(cpu)?;
        let mut stay = ThreadStay {
            settled_mono_ns: now_mono_ns,
            runnable_ns: found.stays_ns,
            steal_ns: self.steal_sampled.then_some(found.stays_steal_ns),
        };
        if found.here_since_ns == 0 {
            return Some(stay);
        }
        let begun = [found.irq_since_ns, Some(found.softirq_since_ns)];
        for since_ns in begun.into_iter().flatten().filter(|&ns| ns > 0) {
            if now_mono_ns.saturating_sub(since_ns) < LOST_END_NS {
                stay.settled_mono_ns = stay.settled_mono_ns.min(since_ns);
            }
        }
        if !found.runs {
            let waits_since_ns = found.off_since_ns.max(found.here_since_ns);
            stay.settled_mono_ns = stay.settled_mono_ns.min(waits_since_ns);
        }
        stay.runnable_ns += stay.settled_mono_ns.saturating_sub(found.here_since_ns);
        if let (Some(steal_ns), Some(now_ns)) = (&mut stay.steal_ns, self.steal_ns(cpu)) {
            *steal_ns += now_ns.saturating_sub(found.here_since_steal_ns);
        }
        Some(stay)
    }

    fn steal_ns(&self, cpu: u32) -> Option<u64> {
        self.steal.read_ns(&self.object, cpu)
    }
}
