//! How fast the CPUs work for a command while it has them: cycles, reference cycles and
//! instructions of its threads, by the counters of the CPU (PMU).
//!
//! Reference cycles pass at a fixed speed, like the TSC, whatever the CPU's frequency. They stop
//! while the hypervisor or another task has the CPU. So cycles divided by reference cycles give the
//! frequency that the command had. Interrupts during its turns are included, unless only its own
//! code may be counted.

use std::io;

use vmnoise_host::PmuEvent;

use crate::perf::{Count, CountedEvents, Counter};

/// Returns an event of PERF_TYPE_HARDWARE: each kind of CPU has its own number for it.
const fn hardware(config: u64) -> PmuEvent {
    PmuEvent { pmu: 0, config }
}
/// PERF_COUNT_HW_CPU_CYCLES.
const CYCLES: PmuEvent = hardware(0);
/// PERF_COUNT_HW_INSTRUCTIONS.
const INSTRUCTIONS: PmuEvent = hardware(1);
/// PERF_COUNT_HW_REF_CPU_CYCLES, which AMD's CPUs have since Zen 4.
const REF_CYCLES: PmuEvent = hardware(9);

/// Counters of the programs that the calling thread starts next, and of all programs that these
/// start.
#[derive(Debug)]
pub struct RateCounters {
    cycles: Counter,
    instructions: Counter,
    ref_cycles: Option<Counter>,
    /// Whether the rights only allow counting the programs' own code.
    pub own_code: bool,
}

/// A reading of the counters since their start.
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
    /// Opens the counters. They count from the exec of the next program on. Without the right to
    /// more, they count only the programs' own code.
    ///
    /// # Errors
    /// ENOENT if this CPU, or the hypervisor, has no such counters; EACCES or EPERM without any
    /// right to them.
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
            // There is no such event, or no counter for it next to the two others.
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

    /// Returns what was counted until now.
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
