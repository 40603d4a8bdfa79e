//! Runs a load on the host during a measurement.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use vmnoise_testbed::{TiedProcess, installed, lab_program, stress_ng};

use super::at_work::{self, CALLS};
use super::{HostMachine, waiting};
use crate::measuring::Job;
use crate::scenario::{Cell, CellKernel, CellPolicy, CellWorkload, Hypervisor, Load, Tuning};

/// Program that sends packets. `IN_ITS_OWN` runs it in a separate network namespace, which is
/// removed when the program ends (util-linux).
const PACKETS: &str = "lab-network";
const IN_ITS_OWN: &str = "unshare --net --mount";

/// Time limit for the start of a load. Its CPU may be busy with other tasks.
const BACKSTOP: Duration = Duration::from_secs(30);

/// Load that runs until the value is dropped.
#[derive(Debug)]
pub(super) struct Loaded {
    program: Option<TiedProcess>,
    /// Command without the paths of programs, because the paths of this source tree do not belong
    /// into a result.
    words: Vec<String>,
}

impl Loaded {
    /// Starts the load of a cell on the measured CPU. Returns when the load is active.
    pub(super) fn start(host: &HostMachine, job: Job<'_>, folder: &Path) -> Result<Loaded> {
        let load = job.cell.load;
        let words = words(host.cpu, load);
        let found: Vec<PathBuf> = words.iter().map(found).collect::<Result<_>>()?;
        let start = |(program, arguments): (&PathBuf, &[PathBuf])| {
            TiedProcess::lead(program, arguments, folder, &folder.join("load-said"))
        };
        let mut loaded = Loaded {
            program: found.split_first().map(start).transpose()?,
            words,
        };
        let what = format!("`{}` to begin", loaded.words.join(" "));
        waiting::until(&what, BACKSTOP, job.asked_to_end, || {
            loaded.has_worked()?;
            let pid = loaded.program.as_ref().map(TiedProcess::pid);
            Ok(pid.is_none_or(|pid| at_work::is(load, pid)))
        })?;
        Ok(loaded)
    }

    /// Checks that the load is still running. Does nothing without a load.
    ///
    /// # Errors
    /// If the load has ended. The error contains its output.
    pub(super) fn has_worked(&mut self) -> Result<()> {
        let Some(program) = &mut self.program else {
            return Ok(());
        };
        let ended = program.ended()?;
        ensure!(
            ended.is_none(),
            "the load `{}` ended before the measurement: {}",
            self.words.join(" "),
            program.said().trim()
        );
        Ok(())
    }

    /// Returns the command of the load; `None` without a load.
    pub(super) fn command(&self) -> Option<String> {
        self.program.is_some().then(|| self.words.join(" "))
    }
}

/// Returns the command that puts this load on this CPU, as words. Empty without a load.
fn words(cpu: u32, load: Load) -> Vec<String> {
    let packets = |place: &str| format!("{IN_ITS_OWN} {PACKETS} flood {cpu} {place}");
    let command = match load {
        Load::SystemCalls => format!("{CALLS} calls {cpu}"),
        Load::Network => packets("here"),
        Load::NetworkElsewhere => packets("elsewhere"),
        Load::StressNg => stress_ng::command(cpu, "."),
        Load::Idle | Load::Bursts => String::new(),
    };
    command.split_whitespace().map(str::to_owned).collect()
}

/// Returns a word of a command. Programs of this source tree get their path.
fn found(word: &String) -> Result<PathBuf> {
    match [CALLS, PACKETS].contains(&word.as_str()) {
        true => lab_program(word),
        false => Ok(word.into()),
    }
}

/// Returns the reason why the load of this cell cannot run here; `None` if it can.
pub(super) fn refusal(host: &HostMachine, cell: &Cell) -> Option<&'static str> {
    match cell.load {
        Load::Bursts => Some("this load exists only in emulation: use `system-calls`"),
        Load::StressNg if !installed::is_here(stress_ng::PROGRAM) => {
            Some("stress-ng is not here: install the package stress-ng")
        }
        Load::Network | Load::NetworkElsewhere => of_packets(host, cell),
        Load::Idle | Load::SystemCalls | Load::StressNg => None,
    }
}

/// Returns the reason why this cell cannot have a load of packets; `None` if it can. The handling
/// of packets needs threads of ordinary priority. A task that polls at SCHED_FIFO leaves them no
/// time on its CPU. In a guest, the policy of the vCPU's thread matters, not that of the task
/// inside. A vCPU of Xen is no thread of Dom0.
fn of_packets(host: &HostMachine, cell: &Cell) -> Option<&'static str> {
    if !host.has_another_cpu {
        return Some(
            "another CPU must send the packets of this load, but this process may use only one: allow it two (taskset, cpuset)",
        );
    }
    let is_at_fifo = match cell.hypervisor {
        Hypervisor::Bare | Hypervisor::Dom0 => cell.policy == CellPolicy::Fifo1,
        Hypervisor::Kvm => matches!(cell.tuning, Tuning::VcpusAtFifo99 | Tuning::VmmAtFifo99),
        Hypervisor::Microvm | Hypervisor::Xen => false,
    };
    let polls = cell.workload == CellWorkload::Osnoise;
    (cell.host_kernel == CellKernel::Rt && polls && is_at_fifo).then_some(
        "PREEMPT_RT receives packets of this load in ksoftirqd at SCHED_OTHER, which never runs while a task polls at \
         SCHED_FIFO: use `policy = \"other\"`, leave the vCPU as it is, or use the ordinary kernel",
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::*;

    #[test]
    fn a_command_is_noted_without_where_this_tree_lies() {
        let noted = |load| words(3, load).join(" ");
        assert_eq!(noted(Load::SystemCalls), "lab-disturb calls 3");
        let packets = "unshare --net --mount lab-network flood 3 here";
        assert_eq!(noted(Load::Network), packets);
        assert_eq!(noted(Load::Idle), "");
    }

    fn loaded(folder: &Path, command: &str) -> Loaded {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let said = folder.join("load-said");
        let program = TiedProcess::lead(Path::new(&words[0]), &words[1..], folder, &said);
        Loaded {
            program: Some(program.unwrap()),
            words,
        }
    }

    #[test]
    fn a_load_that_ends_at_once_has_not_worked() {
        let folder = tempfile::tempdir().unwrap();
        let mut failed = loaded(folder.path(), "ls nowhere");
        let until = std::time::Instant::now() + BACKSTOP;
        let error = loop {
            match failed.has_worked() {
                Err(error) => break error.to_string(),
                Ok(()) => assert!(std::time::Instant::now() < until, "it goes on"),
            }
        };
        assert!(
            error.contains("`ls nowhere` ended before") && error.contains("No such file"),
            "{error}"
        );
        let mut works = loaded(folder.path(), "sleep 100");
        assert!(works.has_worked().is_ok());
    }

    mod root {
        use std::sync::Arc;
        use std::sync::atomic::AtomicBool;

        use super::*;
        use crate::host::HostMachine;
        use crate::library;
        use crate::scenario::Scenario;

        #[test]
        fn each_load_begins_and_works() {
            let host = HostMachine::read().unwrap();
            let text = library::text("net-rx-tail").unwrap();
            let scenario = Scenario::parse(text).unwrap();
            let folder = tempfile::tempdir().unwrap();
            for load in [Load::SystemCalls, Load::Network, Load::NetworkElsewhere] {
                if load != Load::SystemCalls && !host.has_another_cpu {
                    continue;
                }
                let mut cell = scenario.cells()[0].clone();
                cell.load = load;
                let job = Job {
                    cell: &cell,
                    measure: &scenario.measure,
                    seed: 1,
                    asked_to_end: &Arc::new(AtomicBool::new(false)),
                };
                let mut loaded = Loaded::start(&host, job, folder.path()).unwrap();
                loaded.has_worked().unwrap();
            }
        }
    }
}
