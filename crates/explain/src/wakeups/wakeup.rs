//! One activation, explained.

use vmnoise_events::Activation;

use crate::part::Part;
use crate::phase::Phase;

/// How late a task was, and where that came from: the `ns` of all parts add up to
/// `latency_ns` exactly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wakeup {
    /// The CPU of the task.
    pub cpu: u32,
    /// When it was to run, CLOCK_MONOTONIC in nanoseconds.
    pub expiry_mono_ns: u64,
    /// From then until it read the clock in user space.
    pub latency_ns: u64,
    /// From then until the timer's interrupt came to this timer; `None` if that was not seen.
    pub irq_ns: Option<u64>,
    /// From then until the task was switched in; `None` if that was not seen.
    pub thread_ns: Option<u64>,
    /// How long each phase was, by the order of [`Phase::ALL`]; `None` where a step was not
    /// seen.
    pub phases_ns: [Option<u64>; 5],
    /// Time whose phase is unknown.
    pub unsplit_ns: u64,
    /// Whether the recording of a host tells of all of it.
    pub witnessed: bool,
    /// Expiries before this one that nobody could ask for.
    pub missed: u32,
    /// In the order of phases, the largest first in each.
    pub parts: Vec<Part>,
    /// The steal clock claimed more than a phase was long.
    pub steal_clamped: bool,
    /// It was late enough to end the run.
    pub hits_limit: bool,
}

impl Wakeup {
    pub(crate) fn new(activation: &Activation) -> Wakeup {
        let expiry_ns = activation.expiry_mono_ns;
        let latency_ns = activation.woke_mono_ns.saturating_sub(expiry_ns);
        let late = |mono_ns: Option<u64>| {
            mono_ns.map(|mono_ns| mono_ns.saturating_sub(expiry_ns).min(latency_ns))
        };
        Wakeup {
            cpu: activation.cpu,
            expiry_mono_ns: expiry_ns,
            latency_ns,
            irq_ns: late(activation.irq_mono_ns),
            thread_ns: late(activation.switch_mono_ns),
            phases_ns: [None; 5],
            unsplit_ns: 0,
            witnessed: false,
            missed: activation.missed,
            parts: Vec::new(),
            steal_clamped: false,
            hits_limit: false,
        }
    }

    /// How long this phase was; `None` where that is unknown.
    pub fn phase_ns(&self, phase: Phase) -> Option<u64> {
        self.phases_ns[phase as usize]
    }

    /// When the task read its clock, CLOCK_MONOTONIC in nanoseconds.
    pub fn end_mono_ns(&self) -> u64 {
        self.expiry_mono_ns.saturating_add(self.latency_ns)
    }
}
