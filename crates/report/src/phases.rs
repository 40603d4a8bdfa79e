//! The phases of wake-ups over a run: how long each was, and beside a host whose time that was.

use vmnoise_explain::{CpuSides, CpuWakeups, Phase, PhaseSides};

use crate::figures::sum;
use crate::run::Run;

/// One phase of all wake-ups of a CPU, or of all CPUs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PhaseSum {
    /// `None` is what no phase is known of.
    pub(crate) phase: Option<Phase>,
    /// Nanoseconds; `None` where no wake-up could say.
    pub(crate) total_ns: Option<u64>,
    /// `None` without a host.
    pub(crate) sides: Option<PhaseSides>,
}

/// What the wake-ups of a CPU consist of.
#[derive(Debug, Clone)]
pub(crate) struct CpuPhases {
    /// The CPU.
    pub(crate) cpu: u32,
    /// How many wake-ups.
    pub(crate) count: u64,
    /// In the order of time.
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

    /// All phases together, in nanoseconds.
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

/// Those of each CPU, ascending; none where no tasks were measured.
pub(crate) fn by_cpu(run: &Run) -> Vec<CpuPhases> {
    let wakeups = run.wakeups().into_iter().flat_map(|it| &it.cpus);
    let sides = run.latencies().map(|it| &it.cpus);
    let cpus = wakeups.map(|cpu| {
        let sides = sides.and_then(|all| all.iter().find(|it| it.cpu == cpu.cpu));
        CpuPhases::new(cpu, sides)
    });
    cpus.collect()
}

/// All CPUs together.
pub(crate) fn together(cpus: &[CpuPhases]) -> Option<CpuPhases> {
    let (first, others) = cpus.split_first()?;
    let mut sum = first.clone();
    others.iter().for_each(|cpu| sum.add(cpu));
    Some(sum)
}

/// For a chart or a table.
pub(crate) const fn label(phase: Option<Phase>) -> &'static str {
    match phase {
        Some(Phase::ArmedLate) => "armed after the expiry",
        Some(Phase::Irq) => "until the timer’s interrupt",
        Some(Phase::Handler) => "in the timer’s handler",
        Some(Phase::Wakeup) => "until the switch to the task",
        Some(Phase::Return) => "back to user space",
        None => "phases not told apart",
    }
}

/// Apart from each other, light or dark.
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
