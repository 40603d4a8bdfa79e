//! An observed thread: where it is, and for how long it could have used a CPU.

use std::{rc::Rc, sync::Arc};

use libbpf_rs::Object;
use vmnoise_host::Host;

use crate::{mapped::MappedCpus, steal::StealClock};

/// An interrupt that has lasted longer has lost its end.
const LOST_END_NS: u64 = 1_000_000_000;
/// How often a thread that moves while it is looked for is looked for again.
const ATTEMPTS: usize = 10;

/// An observed thread on one CPU, since [`crate::Tracer::attach`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stay {
    /// Up to here [`crate::Tracer::drain`] reports all there is to tell: now, or the begin of what
    /// keeps the thread off the CPU right now. CLOCK_MONOTONIC in ns.
    pub settled_mono_ns: u64,
    /// How long the thread ran or waited on this CPU up to then, in ns.
    pub runnable_ns: u64,
    /// How far the CPU's steal clock advanced meanwhile and until now, in ns; `None`
    /// where it cannot be read at any instant.
    pub steal_ns: Option<u64>,
}

/// Looks at observed threads. The memory that it reads stays after the [`crate::Tracer`]
/// is gone; nothing changes in it any more then.
#[derive(Debug)]
pub struct Observer {
    pub(crate) object: Rc<Object>,
    pub(crate) cpus: Arc<MappedCpus>,
    pub(crate) steal: StealClock,
    pub(crate) steal_sampled: bool,
}

impl Observer {
    /// Finds out where a watched thread is: one that runs without ever being switched
    /// out shows in no event. Call it once, after [`crate::Tracer::attach`], which
    /// reports every move from there on. `now_mono_ns` reads CLOCK_MONOTONIC.
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
            // It may have gone before there was anything to take back.
            if host.place(tid)? == place {
                return Ok(());
            }
            self.cpus.unset_here(place.cpu, since_ns);
        }
        Ok(())
    }

    /// What an observed thread has had of this CPU by `now_mono_ns`, which is read just
    /// before; `None` if there is no such CPU.
    pub fn stay(&self, cpu: u32, now_mono_ns: u64) -> Option<Stay> {
        let found = self.cpus.whereabouts(cpu)?;
        let mut stay = Stay {
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
