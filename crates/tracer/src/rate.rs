//! Measures how fast CPUs run a command. The CPU's counters (PMU) give cycles, reference cycles and
//! instructions of the command's threads.
//!
//! Reference cycles pass at a fixed speed, like the TSC, at any frequency of the CPU. They stop
//! while the hypervisor or another task has the CPU. So cycles divided by reference cycles give the
//! frequency at which the command ran. Interrupts while the command has the CPU are included,
//! unless this process may count only the command's own code.

use std::io;

use vmnoise_host::PmuEvent;

use crate::perf::{Count, CountedEvents, Counter};

/// Returns an event of PERF_TYPE_HARDWARE. Each kind of CPU has its own number for this event.
const fn hardware(config: u64) -> PmuEvent {
    PmuEvent { pmu: 0, config }
}
/// PERF_COUNT_HW_CPU_CYCLES.
const CYCLES: PmuEvent = hardware(0);
/// PERF_COUNT_HW_INSTRUCTIONS.
const INSTRUCTIONS: PmuEvent = hardware(1);
/// PERF_COUNT_HW_REF_CPU_CYCLES. CPUs of AMD have this event since Zen 4.
const REF_CYCLES: PmuEvent = hardware(9);

/// Counters of the programs that the calling thread starts next, including their child processes.
#[derive(Debug)]
pub struct RateCounters {
    cycles: Counter,
    instructions: Counter,
    ref_cycles: Option<Counter>,
    /// Whether this process may count only the programs' own code.
    pub own_code: bool,
}

/// Counts since the counters were started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rate {
    /// Cycles of the CPUs.
    pub cycles: Count,
    /// Number of completed instructions.
    pub instructions: Count,
    /// Cycles at the frequency of the TSC; `None` if this CPU does not count them.
    pub ref_cycles: Option<Count>,
}

impl RateCounters {
    /// Opens the counters. They count from the exec of the next program on. If this process may
    /// count nothing else, they count only the programs' own code.
    ///
    /// # Errors
    /// ENOENT: this CPU, or the hypervisor, has no such counters. EACCES or EPERM: this process has
    /// no right to use them.
    pub fn of_next_programs() -> io::Result<RateCounters> {
        match RateCounters::open(false) {
            Err(why) if why.kind() == io::ErrorKind::PermissionDenied => RateCounters::open(true),
            opened => opened,
        }
    }

    fn open(own_code: bool) -> io::Result<RateCounters> {
        let of = |beside| CountedEvents::NextPrograms { beside, own_code };
        let cycles = Counter::open(CYCLES, of(None))?;
        let instructions = Counter::open(INSTRUCTIONS, of(Some(&cycles)))?;
        let ref_cycles = match Counter::open(REF_CYCLES, of(Some(&cycles))) {
            Ok(counter) => Some(counter),
            // The CPU does not have this event, or has no free counter for it.
            Err(why) if is_missing(&why) => None,
            Err(why) => return Err(why),
        };
        Ok(RateCounters {
            instructions,
            ref_cycles,
            cycles,
            own_code,
        })
    }

    /// Returns the counts so far.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn read(&self) -> io::Result<Rate> {
        Ok(Rate {
            cycles: self.cycles.read()?,
            instructions: self.instructions.read()?,
            ref_cycles: self.ref_cycles.as_ref().map(Counter::read).transpose()?,
        })
    }
}

fn is_missing(why: &io::Error) -> bool {
    let missing = [libc::ENOENT, libc::EINVAL, libc::EOPNOTSUPP];
    why.raw_os_error().is_some_and(|it| missing.contains(&it))
}
