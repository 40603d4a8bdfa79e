//! How fast the CPUs work for a command while it has them: cycles, reference cycles and instructions of its threads,
//! by the counters of the CPU (PMU).
//!
//! Reference cycles pass at one speed whatever the CPU's frequency, as the TSC does, and stop where the CPU is taken away:
//! so cycles by reference cycle are the frequency that the command had, and no gap is in them.

use std::io;

use crate::perf::{Count, Counted, Counter, PmuEvent};

/// PERF_TYPE_HARDWARE: events that each kind of CPU has under numbers of its own.
const fn hardware(config: u64) -> PmuEvent {
    PmuEvent { pmu: 0, config }
}
/// PERF_COUNT_HW_CPU_CYCLES.
const CYCLES: PmuEvent = hardware(0);
/// PERF_COUNT_HW_INSTRUCTIONS.
const INSTRUCTIONS: PmuEvent = hardware(1);
/// PERF_COUNT_HW_REF_CPU_CYCLES, which AMD's CPUs do not have.
const REF_CYCLES: PmuEvent = hardware(9);

/// Counters of the programs that the calling thread starts next, and of all that these start.
#[derive(Debug)]
pub struct RateCounters {
    cycles: Counter,
    instructions: Counter,
    ref_cycles: Option<Counter>,
}

/// What they say: all of it counted at the same times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rate {
    /// Cycles of the CPUs.
    pub cycles: u64,
    /// Instructions that were completed.
    pub instructions: u64,
    /// Cycles at the frequency of the TSC; `None` where this CPU does not count them.
    pub ref_cycles: Option<u64>,
    /// For how long the threads had CPUs, in ns over all of them.
    pub ran_ns: u64,
    /// For how much of that it was counted: all of it, where the CPU has counters enough.
    pub counted_ns: u64,
}

impl RateCounters {
    /// Opens them; they count from the exec of the next program on.
    ///
    /// # Errors
    /// ENOENT where this CPU, or the hypervisor, has no such counters; EACCES without the right to them.
    pub fn of_next_programs() -> io::Result<RateCounters> {
        let cycles = Counter::open(CYCLES, Counted::NextPrograms(None))?;
        let beside = Counted::NextPrograms(Some(&cycles));
        let instructions = Counter::open(INSTRUCTIONS, beside)?;
        let ref_cycles = Counter::open(REF_CYCLES, beside).ok();
        Ok(RateCounters {
            instructions,
            ref_cycles,
            cycles,
        })
    }

    /// What was counted until now.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn read(&self) -> io::Result<Rate> {
        let Count {
            events: cycles,
            enabled_ns: ran_ns,
            running_ns: counted_ns,
        } = self.cycles.read()?;
        let ref_cycles = self.ref_cycles.as_ref().map(Counter::read).transpose()?;
        Ok(Rate {
            cycles,
            instructions: self.instructions.read()?.events,
            ref_cycles: ref_cycles.map(|count| count.events),
            ran_ns,
            counted_ns,
        })
    }
}
