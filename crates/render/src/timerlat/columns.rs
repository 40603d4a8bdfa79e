//! Figures of rtla's tables: the latencies of each CPU in the three contexts of a wake-up.

use std::collections::BTreeMap;

use vmnoise_explain::Interval;

/// Figures of one context: of the last wake-up, and of all wake-ups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextFigures {
    /// Number of wake-ups.
    pub count: u64,
    /// Latency of the current wake-up, in nanoseconds.
    pub current_ns: u64,
    /// Least latency, in nanoseconds; [`u64::MAX`] without wake-ups.
    pub min_ns: u64,
    /// Sum of all latencies, in nanoseconds.
    pub sum_ns: u64,
    /// Longest latency, in nanoseconds.
    pub max_ns: u64,
}

impl Default for ContextFigures {
    fn default() -> ContextFigures {
        ContextFigures {
            count: 0,
            current_ns: 0,
            min_ns: u64::MAX,
            sum_ns: 0,
            max_ns: 0,
        }
    }
}

impl ContextFigures {
    fn add(&mut self, latency_ns: Option<u64>) {
        if let Some(ns) = latency_ns {
            self.count += 1;
            self.current_ns = ns;
            self.min_ns = self.min_ns.min(ns);
            self.sum_ns = self.sum_ns.saturating_add(ns);
            self.max_ns = self.max_ns.max(ns);
        }
    }

    /// Merges the figures of two CPUs. The result has no last wake-up.
    pub fn with(self, other: ContextFigures) -> ContextFigures {
        ContextFigures {
            count: self.count + other.count,
            current_ns: 0,
            min_ns: self.min_ns.min(other.min_ns),
            sum_ns: self.sum_ns.saturating_add(other.sum_ns),
            max_ns: self.max_ns.max(other.max_ns),
        }
    }

    /// Returns the mean; `None` if there were no wake-ups.
    pub fn mean_ns(&self) -> Option<u64> {
        self.sum_ns.checked_div(self.count)
    }

    /// Returns `ns`; `None` if there were no wake-ups.
    pub fn known(&self, ns: u64) -> Option<u64> {
        (self.count > 0).then_some(ns)
    }
}

/// Figures of the three contexts on one CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Contexts {
    /// The timer's interrupt.
    pub irq: ContextFigures,
    /// The task in the kernel.
    pub thread: ContextFigures,
    /// The task in user space.
    pub user: ContextFigures,
}

impl Contexts {
    fn add(&mut self, wakeup: &Interval) {
        let [irq_ns, thread_ns, user_ns] = wakeup.latencies_ns();
        self.irq.add(irq_ns);
        self.thread.add(thread_ns);
        self.user.add(user_ns);
    }

    /// Returns all contexts, in the order in which a wake-up passes through them.
    pub fn all(self) -> [ContextFigures; 3] {
        [self.irq, self.thread, self.user]
    }
}

/// Figures of every CPU that had a wake-up, by CPU number.
#[derive(Debug, Default)]
pub struct CpuColumns {
    cpus: BTreeMap<u32, Contexts>,
}

impl CpuColumns {
    /// Adds a wake-up.
    pub fn add(&mut self, wakeup: &Interval) {
        self.cpus.entry(wakeup.cpu).or_default().add(wakeup);
    }

    /// Returns the number of wake-ups of the task on this CPU.
    pub fn count_of(&self, cpu: u32) -> u64 {
        self.cpus
            .get(&cpu)
            .map_or(0, |contexts| contexts.user.count)
    }

    /// Returns each CPU with its contexts.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Contexts)> {
        self.cpus.iter().map(|(cpu, contexts)| (*cpu, contexts))
    }

    /// Returns the figures of all CPUs together.
    pub fn total(&self) -> Contexts {
        let all = self.cpus.values().copied();
        all.fold(Contexts::default(), |sum, cpu| Contexts {
            irq: sum.irq.with(cpu.irq),
            thread: sum.thread.with(cpu.thread),
            user: sum.user.with(cpu.user),
        })
    }
}
