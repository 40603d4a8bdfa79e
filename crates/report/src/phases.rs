//! Phases of a run's wake-ups: their lengths and, for joined recordings, the time that guest and
//! host caused.

use vmnoise_explain::{CpuSides, CpuWakeups, Phase, PhaseSides};

use crate::figures::sum;
use crate::run::ReportedRun;

/// Time of one phase, over all wake-ups of one CPU or of all CPUs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PhaseSum {
    /// The phase; `None` for the time that belongs to no known phase.
    pub(crate) phase: Option<Phase>,
    /// Time in nanoseconds; `None` if no wake-up has this phase.
    pub(crate) total_ns: Option<u64>,
    /// Time that guest and host caused; `None` without a host's recording.
    pub(crate) sides: Option<PhaseSides>,
}

/// Phases of the wake-ups of one CPU, or of all CPUs together.
#[derive(Debug, Clone)]
pub(crate) struct CpuPhases {
    /// Number of the CPU.
    pub(crate) cpu: u32,
    /// Number of wake-ups.
    pub(crate) count: u64,
    /// Phases in the order of time.
    pub(crate) phases: [PhaseSum; 6],
}

impl CpuPhases {
    fn new(cpu: &CpuWakeups, sides: Option<&CpuSides>) -> CpuPhases {
        let reported = cpu.phases_ns;
        let totals_ns = [
            reported.armed_late,
            reported.irq,
            reported.handler,
            reported.wakeup,
            reported.return_,
            (reported.unsplit > 0).then_some(reported.unsplit),
        ];
        CpuPhases {
            cpu: cpu.cpu,
            count: cpu.count,
            phases: std::array::from_fn(|place| PhaseSum {
                phase: Phase::ALL.get(place).copied(),
                total_ns: totals_ns[place],
                sides: sides.map(|it| it.phases[place]),
            }),
        }
    }

    /// Returns the sum of all phases in nanoseconds.
    pub(crate) fn total_ns(&self) -> u64 {
        sum(self.phases.iter().filter_map(|it| it.total_ns))
    }

    fn add(&mut self, other: &CpuPhases) {
        self.count += other.count;
        for (all, more) in self.phases.iter_mut().zip(&other.phases) {
            all.total_ns = match (all.total_ns, more.total_ns) {
                (Some(ns), Some(more_ns)) => Some(sum([ns, more_ns])),
                (known, None) | (None, known) => known,
            };
            if let (Some(sides), Some(more)) = (&mut all.sides, more.sides) {
                sides.guest_ns = sum([sides.guest_ns, more.guest_ns]);
                sides.host_ns = sum([sides.host_ns, more.host_ns]);
                sides.unknown_ns = sum([sides.unknown_ns, more.unknown_ns]);
            }
        }
    }
}

/// Returns the phases of each CPU, by ascending number. Empty if no periodic tasks were measured.
pub(crate) fn by_cpu(run: &ReportedRun) -> Vec<CpuPhases> {
    let wakeups = run.wakeups().into_iter().flat_map(|it| &it.cpus);
    let sides = run.latencies().map(|it| &it.cpus);
    let cpus = wakeups.map(|cpu| {
        let sides = sides.and_then(|all| all.iter().find(|it| it.cpu == cpu.cpu));
        CpuPhases::new(cpu, sides)
    });
    cpus.collect()
}

/// Returns the sums over all CPUs; `None` without CPUs.
pub(crate) fn together(cpus: &[CpuPhases]) -> Option<CpuPhases> {
    let (first, others) = cpus.split_first()?;
    let mut sum = first.clone();
    others.iter().for_each(|cpu| sum.add(cpu));
    Some(sum)
}

/// Returns the name of a phase for a chart or a table.
pub(crate) const fn label(phase: Option<Phase>) -> &'static str {
    match phase {
        Some(Phase::ArmedLate) => "armed after the expiry",
        Some(Phase::Irq) => "until the timer’s interrupt",
        Some(Phase::Handler) => "in the timer’s handler",
        Some(Phase::Wakeup) => "until the switch to the task",
        Some(Phase::Return) => "back to user space",
        None => "phases unknown",
    }
}

/// Returns the colour of a phase, which is visible on light and dark backgrounds.
pub(crate) const fn colour(phase: Option<Phase>) -> &'static str {
    match phase {
        Some(Phase::ArmedLate) => "#d69a00",
        Some(Phase::Irq) => "#3f7fd6",
        Some(Phase::Handler) => "#8a63c9",
        Some(Phase::Wakeup) => "#1f9e89",
        Some(Phase::Return) => "#c8375f",
        None => "#a7b0ba",
    }
}
