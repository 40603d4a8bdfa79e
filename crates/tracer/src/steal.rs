//! The steal clock of this machine, if this machine is a guest: its source, and how to read it.

use std::{fs, path::Path};

use libbpf_rs::{Object, ProgramInput};
use vmnoise_events::{ProbeName, ProbeStatus};

use crate::{
    btf::MinusRunQueue,
    mapped::MappedCpus,
    object::{Programs, walk},
    wire::StealQuery,
};

/// Function that returns the address of a CPU's run queue; `None` if the walk over all tasks did
/// not find it.
pub(crate) type RunQueueOf<'a> = &'a dyn Fn(u32) -> Option<u64>;

/// The per-CPU variable in which a hypervisor writes the steal time. Its address follows from BTF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Variable {
    /// Whether the variable is `xen_runstate`, a `struct vcpu_runstate_info`. Otherwise it is
    /// `steal_time`, a `struct kvm_steal_time`. Hypervisors other than Xen write `steal_time`.
    xen: bool,
    /// Address of a CPU's variable minus the address of the CPU's run queue, modulo 2^64.
    minus_run_queue: u64,
}

impl Variable {
    /// Returns the variable that this hypervisor ([`vmnoise_host::Host::hypervisor`]) writes;
    /// `None` if this kernel does not have it.
    pub(crate) fn of(found: MinusRunQueue, hypervisor: &str) -> Option<Variable> {
        let xen = hypervisor.split(' ').next() == Some("Xen");
        let minus_run_queue = if xen {
            found.xen_runstate
        } else {
            found.steal_time
        };
        Some(Variable {
            xen,
            minus_run_queue: minus_run_queue?,
        })
    }

    pub(crate) fn is_xen(self) -> bool {
        self.xen
    }
}

/// Source of the steal clock. Better sources come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StealClock {
    /// The variable that the hypervisor writes. It can be read at any time, in ns.
    Variable(Variable),
    /// `prev_steal_time` of the run queue: steal time in ns up to the last timer tick of the CPU.
    Tick,
    /// /proc/stat, in ticks of 10 ms.
    ProcStat,
    /// This machine is a guest, and no steal clock was found.
    Unknown,
    /// This machine is not a guest, so no hypervisor takes time from it.
    NoGuest,
}

impl StealClock {
    /// Returns the best source that works. `programs` must have the programs `find_run_queues` and
    /// `read_steal` if this machine is a guest.
    pub(crate) fn find(
        programs: &Programs,
        variable: Option<Variable>,
        run_queue: RunQueueOf<'_>,
        measured: &[u32],
    ) -> StealClock {
        if find_run_queues(programs) {
            let readings: Option<Vec<StealQuery>> = measured
                .iter()
                .filter(|&&cpu| run_queue(cpu).is_some())
                .map(|&cpu| query(programs, cpu, variable))
                .collect();
            let readings = readings.unwrap_or_default();
            if let (Some(variable), false) = (variable, readings.is_empty())
                && readings.iter().all(|reading| reading.alive != 0)
            {
                return StealClock::Variable(variable);
            }
            if readings.iter().any(|reading| reading.tick_steal_ns != 0) {
                return StealClock::Tick;
            }
        }
        match proc_stat_total_ns() {
            Some(1..) => StealClock::ProcStat,
            _ => StealClock::Unknown,
        }
    }

    /// Makes the programs sample the clock with every event of the measured CPUs. Returns whether
    /// they do. If one of these CPUs has no clock that can be read at any time, the clock of no CPU
    /// is sampled.
    pub(crate) fn sample(self, cpus: &MappedCpus, measured: &[u32]) -> bool {
        let StealClock::Variable(variable) = self else {
            return false;
        };
        let clocks = self.addresses(&|cpu| cpus.run_queue(cpu), measured);
        let clocks = clocks.unwrap_or_default();
        for &(cpu, clock) in &clocks {
            cpus.set_steal_clock(cpu, clock, variable.xen);
        }
        !clocks.is_empty()
    }

    /// Returns the address of each CPU's clock. `None` if one of the CPUs has no clock that can be
    /// read at any time.
    pub(crate) fn addresses(
        self,
        run_queue: RunQueueOf<'_>,
        cpus: &[u32],
    ) -> Option<Vec<(u32, u64)>> {
        let StealClock::Variable(variable) = self else {
            return None;
        };
        let clocks = cpus.iter().map(|&cpu| {
            let clock = run_queue(cpu)?.wrapping_add(variable.minus_run_queue);
            Some((cpu, clock))
        });
        clocks.collect()
    }

    /// Returns the steal time of a CPU since boot, in ns.
    pub(crate) fn read_ns(self, object: &Object, cpu: u32) -> Option<u64> {
        match self {
            StealClock::Variable(variable) => {
                query(object, cpu, Some(variable)).map(|reading| reading.steal_ns)
            }
            StealClock::Tick => query(object, cpu, None).map(|reading| reading.tick_steal_ns),
            StealClock::ProcStat => steal_column_ns(
                &fs::read_to_string("/proc/stat").ok()?,
                &format!("cpu{cpu}"),
            ),
            StealClock::Unknown | StealClock::NoGuest => None,
        }
    }

    /// Returns whether the clock counts how often the vCPU returned to its CPU. The version of
    /// KVM's clock is such a count.
    pub(crate) fn counts_reloads(self) -> bool {
        matches!(self, StealClock::Variable(Variable { xen: false, .. }))
    }

    /// Returns the status of sampling: whether the times of activities exclude the steal time
    /// during them.
    pub(crate) fn sampling_status(self, sampled: bool) -> ProbeStatus {
        let (probe_status, limit, remedy) = match (self, sampled) {
            (_, true) => (
                "sampled at begin and end",
                "steal inside an NMI counts as part of it: only the NMI's length is known",
                "",
            ),
            (StealClock::NoGuest, false) => ("not needed", "", ""),
            (_, false) => (
                "not sampled",
                "activities may include steal: time that the outer host took inside an activity \
                 counts as its own",
                "use a guest kernel whose BTF lists the per-CPU variable steal_time (on Xen: \
                 xen_runstate), on a hypervisor that offers a steal clock",
            ),
        };
        ProbeStatus {
            probe: "steal inside activities".into(),
            in_use: probe_status.into(),
            best: sampled || self == StealClock::NoGuest,
            limit: limit.into(),
            remedy: remedy.into(),
        }
    }

    /// Returns a status that names the source.
    pub(crate) fn probe_status(self) -> ProbeStatus {
        let upper = "an upper bound of the time that the outer host's scheduler took";
        let (probe_status, limit, remedy) = match self {
            StealClock::Variable(Variable { xen: false, .. }) => {
                ("kvm_steal_time by BTF offset", upper.to_owned(), "")
            }
            StealClock::Variable(Variable { xen: true, .. }) => {
                ("xen_runstate by BTF offset", upper.to_owned(), "")
            }
            StealClock::Tick => (
                "rq->prev_steal_time",
                format!("{upper}, as of the last tick of the CPU"),
                "use a kernel whose BTF lists the per-CPU variable steal_time (on Xen: xen_runstate)",
            ),
            StealClock::ProcStat => (
                "/proc/stat",
                format!("{upper}, in steps of 10 ms"),
                "run as root on a kernel with BTF (CONFIG_DEBUG_INFO_BTF)",
            ),
            StealClock::Unknown => (
                "none",
                "this machine is a guest, and its hypervisor shows no steal clock".to_owned(),
                "let the hypervisor offer a steal clock to this guest (KVM: +kvm-steal-time)",
            ),
            StealClock::NoGuest => ("not needed", String::new(), ""),
        };
        ProbeStatus {
            probe: ProbeName::StealOfMachine.name().into(),
            in_use: probe_status.into(),
            best: matches!(self, StealClock::Variable(_) | StealClock::NoGuest),
            limit: limit.into(),
            remedy: remedy.into(),
        }
    }
}

/// Runs the iterator over all tasks once. The iterator stores the addresses of run queues in the
/// map `cpus`. Returns whether this succeeded.
fn find_run_queues(programs: &Programs) -> bool {
    let walker = programs.walker("find_run_queues");
    walker.is_ok_and(|link| walk(&link).is_ok())
}

fn query(object: &Object, cpu: u32, variable: Option<Variable>) -> Option<StealQuery> {
    let program = object
        .progs_mut()
        .find(|program| program.name() == "read_steal")?;
    let mut ask = StealQuery {
        clock_minus_run_queue: variable.map_or(0, |it| it.minus_run_queue),
        xen: variable.is_some_and(|it| it.xen).into(),
        cpu,
        ..StealQuery::default()
    };
    // SAFETY: StealQuery consists of integers without padding, so any bytes are valid.
    let bytes = unsafe {
        std::slice::from_raw_parts_mut((&raw mut ask).cast::<u8>(), size_of::<StealQuery>())
    };
    let input = ProgramInput {
        context_in: Some(bytes),
        ..ProgramInput::default()
    };
    let status = program.test_run(input).ok()?.return_value;
    (status == 0).then_some(ask)
}

fn proc_stat_total_ns() -> Option<u64> {
    steal_column_ns(&fs::read_to_string(Path::new("/proc/stat")).ok()?, "cpu")
}

/// Returns the steal time in ns, the eighth number of this line of /proc/stat (proc_stat(5)). Its
/// unit is USER_HZ, which is 100 on every architecture that BPF supports.
fn steal_column_ns(stat: &str, label: &str) -> Option<u64> {
    let line = stat
        .lines()
        .find(|line| line.split(' ').next() == Some(label))?;
    let ticks: u64 = line.split_ascii_whitespace().nth(8)?.parse().ok()?;
    ticks.checked_mul(10_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hypervisor_chooses_the_variable() {
        let of = |steal_time, xen_runstate, hypervisor| {
            let found = MinusRunQueue {
                steal_time,
                xen_runstate,
            };
            Variable::of(found, hypervisor).map(|it| (it.xen, it.minus_run_queue))
        };
        for xen in ["Xen", "Xen PV", "Xen PVH", "Xen HVM"] {
            assert_eq!(of(Some(1), Some(2), xen), Some((true, 2)));
            assert_eq!(of(Some(1), None, xen), None, "nobody writes KVM's there");
        }
        for other in ["KVM", "KVM (Firecracker)", "unnamed"] {
            assert_eq!(of(Some(1), Some(2), other), Some((false, 1)));
        }
    }

    #[test]
    fn only_kvm_counts_reloads() {
        let clock = |xen| {
            StealClock::Variable(Variable {
                xen,
                minus_run_queue: 0,
            })
        };
        assert!(clock(false).counts_reloads() && !clock(true).counts_reloads());
        assert_eq!(
            clock(true).probe_status().in_use,
            "xen_runstate by BTF offset"
        );
    }

    #[test]
    fn proc_stat_has_steal_in_its_eighth_column() {
        let stat = "cpu  1 2 3 4 5 6 7 12 9 10\ncpu0 1 2 3 4 5 6 7 5 9 10\ncpu1 1 2 3\nintr 5\n";
        assert_eq!(steal_column_ns(stat, "cpu"), Some(120_000_000));
        assert_eq!(steal_column_ns(stat, "cpu0"), Some(50_000_000));
        assert_eq!(steal_column_ns(stat, "cpu1"), None);
        assert_eq!(steal_column_ns(stat, "cpu2"), None);
    }
}
