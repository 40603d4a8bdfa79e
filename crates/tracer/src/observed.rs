//! An observed thread: where it is, and how long it could have used a CPU.

use std::{rc::Rc, sync::Arc};

use libbpf_rs::Object;
use vmnoise_host::Host;

use crate::{mapped::MappedCpus, steal::StealClock};

/// Maximum length of an interrupt. If an interrupt seems to last longer, its end was lost.
const LOST_END_NS: u64 = 1_000_000_000;
/// Number of attempts to find a thread that moves meanwhile.
const ATTEMPTS: usize = 10;

/// An observed thread on one CPU, since [`crate::Tracer::attach`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadStay {
    /// Time up to which [`crate::Tracer::drain`] reports everything: now, or the begin of the
    /// activity that keeps the thread off the CPU at the moment. CLOCK_MONOTONIC in ns.
    pub settled_mono_ns: u64,
    /// How long the thread ran or waited on this CPU up to that time, in ns.
    pub runnable_ns: u64,
    /// Advance of the CPU's steal clock while the thread was here, until now, in ns; `None` if the
    /// clock cannot be read at any time.
    pub steal_ns: Option<u64>,
}

/// Reader of observed threads. Its memory stays valid after the [`crate::Tracer`] is gone, but then
/// nothing changes it.
#[derive(Debug)]
pub struct Observer {
    pub(crate) object: Rc<Object>,
    pub(crate) cpus: Arc<MappedCpus>,
    pub(crate) steal: StealClock,
    pub(crate) steal_sampled: bool,
}

impl Observer {
    /// Finds the CPU of a watched thread: a thread that runs and is never switched out shows in no
    /// event. Call it once, after [`crate::Tracer::attach`], which reports every move from then on.
    /// `now_mono_ns` reads CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// If the thread is gone.
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
            // The thread may have gone before there was anything to take back.
            if host.place(tid)? == place {
                return Ok(());
            }
            self.cpus.unset_here(place.cpu, since_ns);
        }
        Ok(())
    }

    /// Returns how long an observed thread ran or waited on this CPU up to `now_mono_ns`, which
    /// must be read just before the call; `None` if there is no such CPU.
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
