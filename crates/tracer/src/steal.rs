//! The steal clock of this machine itself, where it is a guest: which source there
//! is, and its reading.

use std::{fs, io::Read, path::Path};

use libbpf_rs::{Iter, Object, ProgramInput};
use vmnoise_events::Rung;

use crate::{mapped::MappedCpus, wire::StealQuery};

/// Where the steal clock is read, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StealClock {
    /// `struct kvm_steal_time` of the CPU, found through BTF: in ns, at any instant.
    Variable { steal_minus_run_queue: u64 },
    /// `prev_steal_time` of the run queue: in ns, as of its last tick.
    Tick,
    /// /proc/stat: in ticks of 10 ms.
    ProcStat,
    /// This machine is a guest and nothing shows a steal clock.
    Unknown,
    /// This machine is no guest: nobody can steal from it.
    NoGuest,
}

impl StealClock {
    /// Takes the best source that shows life. `find_run_queues` and `read_steal`
    /// are in `object` if this machine is a guest.
    pub(crate) fn find(
        object: Option<&Object>,
        offset: Option<u64>,
        cpus: &MappedCpus,
        measured: &[u32],
    ) -> StealClock {
        if let Some(object) = object.filter(|object| find_run_queues(object)) {
            let readings: Option<Vec<StealQuery>> = measured
                .iter()
                .filter(|&&cpu| cpus.run_queue(cpu).is_some())
                .map(|&cpu| query(object, cpu, offset.unwrap_or_default()))
                .collect();
            let readings = readings.unwrap_or_default();
            // KVM raises `version` with every update; 0 is a page nobody writes.
            if let (Some(steal_minus_run_queue), false) = (offset, readings.is_empty())
                && readings.iter().all(|reading| reading.version != 0)
            {
                return StealClock::Variable {
                    steal_minus_run_queue,
                };
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

    /// Has the clock sampled with every event of the measured CPUs, or of none where
    /// one of them has no clock that can be read at any instant; tells which.
    pub(crate) fn sample(self, cpus: &MappedCpus, measured: &[u32]) -> bool {
        let StealClock::Variable {
            steal_minus_run_queue,
        } = self
        else {
            return false;
        };
        let clocks: Option<Vec<(u32, u64)>> = measured
            .iter()
            .map(|&cpu| {
                let clock = cpus.run_queue(cpu)?.wrapping_add(steal_minus_run_queue);
                Some((cpu, clock))
            })
            .collect();
        let clocks = clocks.unwrap_or_default();
        for &(cpu, clock) in &clocks {
            cpus.set_steal_clock(cpu, clock);
        }
        !clocks.is_empty()
    }

    /// Steal of a CPU since boot in ns.
    pub(crate) fn read_ns(self, object: &Object, cpu: u32) -> Option<u64> {
        match self {
            StealClock::Variable {
                steal_minus_run_queue,
            } => query(object, cpu, steal_minus_run_queue).map(|reading| reading.steal_ns),
            StealClock::Tick => query(object, cpu, 0).map(|reading| reading.tick_steal_ns),
            StealClock::ProcStat => steal_column_ns(
                &fs::read_to_string("/proc/stat").ok()?,
                &format!("cpu{cpu}"),
            ),
            StealClock::Unknown | StealClock::NoGuest => None,
        }
    }

    /// Says whether activities are told net of what was stolen inside them.
    pub(crate) fn sampling_rung(self, sampled: bool) -> Rung {
        let (rung, limit, remedy) = match (self, sampled) {
            (_, true) => (
                "sampled at begin and end",
                "steal inside an NMI is not told from it: only its length is known",
                "",
            ),
            (StealClock::NoGuest, false) => ("not needed", "", ""),
            (_, false) => (
                "not sampled",
                "activities may include steal: what the outer host took inside one counts as its \
                 own time",
                "use a guest kernel whose BTF lists the per-CPU variable steal_time, on a \
                 hypervisor that offers a steal clock",
            ),
        };
        Rung {
            probe: "steal inside activities".to_owned(),
            rung: rung.to_owned(),
            best: sampled || self == StealClock::NoGuest,
            limit: limit.to_owned(),
            remedy: remedy.to_owned(),
        }
    }

    /// Says which source is in use.
    pub(crate) fn rung(self) -> Rung {
        let upper = "an upper bound on what the outer host's scheduler took";
        let (rung, limit, remedy) = match self {
            StealClock::Variable { .. } => ("kvm_steal_time by BTF offset", upper.to_owned(), ""),
            StealClock::Tick => (
                "rq->prev_steal_time",
                format!("{upper}, as of the last tick of the CPU"),
                "use a kernel whose BTF lists the per-CPU variable steal_time",
            ),
            StealClock::ProcStat => (
                "/proc/stat",
                format!("{upper}, in steps of 10 ms"),
                "run as root on a kernel with BTF (CONFIG_DEBUG_INFO_BTF)",
            ),
            StealClock::Unknown => (
                "none",
                "this machine is a guest, and its hypervisor has shown no steal clock".to_owned(),
                "let the hypervisor offer a steal clock to this guest (KVM: +kvm-steal-time)",
            ),
            StealClock::NoGuest => ("not needed", String::new(), ""),
        };
        Rung {
            probe: "steal clock of this machine".to_owned(),
            rung: rung.to_owned(),
            best: matches!(self, StealClock::Variable { .. } | StealClock::NoGuest),
            limit,
            remedy: remedy.to_owned(),
        }
    }
}

/// Runs the iterator over all tasks once; the run queues land in the map `cpus`.
fn find_run_queues(object: &Object) -> bool {
    let Some(program) = object
        .progs_mut()
        .find(|program| program.name() == "find_run_queues")
    else {
        return false;
    };
    let pass = || -> libbpf_rs::Result<()> {
        let link = program.attach()?;
        Iter::new(&link)?.read_to_end(&mut Vec::new())?;
        Ok(())
    };
    pass().is_ok()
}

fn query(object: &Object, cpu: u32, steal_minus_run_queue: u64) -> Option<StealQuery> {
    let program = object
        .progs_mut()
        .find(|program| program.name() == "read_steal")?;
    let mut ask = StealQuery {
        steal_minus_run_queue,
        cpu,
        ..StealQuery::default()
    };
    // SAFETY: StealQuery is plain integers without padding, valid for any bytes.
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

/// The eighth number of a line of /proc/stat (proc_stat(5)), in USER_HZ, which is
/// 100 on every architecture BPF runs on.
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
    fn proc_stat_has_steal_in_its_eighth_column() {
        let stat = "cpu  1 2 3 4 5 6 7 12 9 10\ncpu0 1 2 3 4 5 6 7 5 9 10\ncpu1 1 2 3\nintr 5\n";
        assert_eq!(steal_column_ns(stat, "cpu"), Some(120_000_000));
        assert_eq!(steal_column_ns(stat, "cpu0"), Some(50_000_000));
        assert_eq!(steal_column_ns(stat, "cpu1"), None);
        assert_eq!(steal_column_ns(stat, "cpu2"), None);
    }
}
