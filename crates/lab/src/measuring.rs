//! Commands and results of the measuring programs, for all environments.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use vmnoise_testbed::bed::{self, DebianProgram};
use vmnoise_testbed::stress_ng;

use crate::scenario::{
    Cell, CellKernel, CellPolicy, CellWorkload, GuestExercise, Hypervisor, Load, Measure,
};

/// First or only command of a guest. After its end, the guest counts as booted.
pub(crate) const THERE: &str = "vmnoise --version";

/// File name of the recording that a guest's host makes.
pub const HOST: &str = "host.vmn";

/// Name of the program cyclictest (rt-tests).
pub const CYCLICTEST: &str = "cyclictest";
/// Longest latency that cyclictest counts, in nanoseconds: four periods of the papers. cyclictest
/// has a counter for each nanosecond, and writes all counters at the end.
const REACH_NS: u32 = 200_000;

/// A cell to measure, and how to measure it.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// The cell to measure.
    pub cell: &'a Cell,
    /// Program, duration and repetitions of the measurement.
    pub measure: &'a Measure,
    /// Seed of all random numbers, if time is virtual.
    pub seed: u64,
    /// Flag that is set when the user ends the run.
    pub asked_to_end: &'a Arc<AtomicBool>,
}

/// Recordings and other results of one cell.
#[derive(Debug, PartialEq, Eq)]
pub struct Brought {
    /// Name and content of each recording.
    pub recordings: Vec<(String, Vec<u8>)>,
    /// Console output of the cell's machines.
    pub console: String,
    /// Commands of the cell. Each begins with the name of the machine that ran it.
    pub commands: Vec<String>,
}

/// Returns the names of the files that a cell's repetitions write: recordings, or outputs of
/// cyclictest.
pub fn files(cell: &Cell, measure: &Measure) -> impl Iterator<Item = String> + use<> {
    let ending = match cell.workload {
        CellWorkload::Cyclictest => "json",
        CellWorkload::Timerlat | CellWorkload::Osnoise | CellWorkload::Exercise => "vmn",
    };
    (1..=measure.repeat).map(move |repetition| format!("measured-{repetition}.{ending}"))
}

/// Returns the name of the file for the output of the program that makes this recording.
pub fn said(recording: &str) -> String {
    recording.replace(".vmn", ".json")
}

/// Returns the paths of the files from [`files`] in the machine that measures the cell.
pub(crate) fn inside(cell: &Cell, measure: &Measure) -> impl Iterator<Item = String> + use<> {
    files(cell, measure).map(|file| format!("/tmp/{file}"))
}

/// Returns the reason why this cell can be measured in no environment; `None` if it can.
pub(crate) fn refusal(cell: &Cell, measure: &Measure) -> Option<&'static str> {
    let (period_ns, duration_ns) = (cell.period.ns(), measure.duration.ns());
    match cell.workload {
        CellWorkload::Cyclictest if period_ns == 0 || !period_ns.is_multiple_of(1000) => Some(
            "cyclictest takes its `period` in microseconds: make it a whole number of them, at least one",
        ),
        // cyclictest would never end with 0 periods.
        CellWorkload::Cyclictest if duration_ns < period_ns => {
            Some("cyclictest counts whole periods: make `duration` at least one `period`")
        }
        CellWorkload::Cyclictest
        | CellWorkload::Timerlat
        | CellWorkload::Osnoise
        | CellWorkload::Exercise => None,
    }
}

/// Returns the command that measures once, and records to `output`.
pub(crate) fn command(cell: &Cell, measure: &Measure, output: &str) -> String {
    let duration = measure.duration;
    let period = cell.period;
    // Policy in the format of the option `-P`.
    let policy = match cell.policy {
        CellPolicy::Usual => "",
        CellPolicy::Other => " -P o:0",
        CellPolicy::Fifo1 => " -P f:1",
    };
    match cell.workload {
        CellWorkload::Cyclictest => {
            let policy = match cell.policy {
                CellPolicy::Usual => "-p95",
                CellPolicy::Other => "--policy=other",
                CellPolicy::Fifo1 => "-p1",
            };
            let (us, times) = (period.ns() / 1000, duration.ns() / period.ns());
            format!(
                "{CYCLICTEST} -q -m -N -t1 {policy} -i {us} -l {times} -h {REACH_NS} --histfile=/dev/null --json={output}"
            )
        }
        CellWorkload::Timerlat => {
            format!("vmnoise timerlat -q -p {period} -d {duration}{policy} -o {output}")
        }
        CellWorkload::Osnoise if cell.hypervisor == Hypervisor::Microvm => {
            format!("vmnoise microvm -d {duration}{policy} -o {output}")
        }
        CellWorkload::Osnoise => format!("vmnoise osnoise -q -d {duration}{policy} -o {output}"),
        CellWorkload::Exercise => {
            let exercise = cell.exercise.unwrap_or(GuestExercise::Cpuid);
            format!("vmnoise microvm --exercise {exercise} -d {duration}{policy} --format json")
        }
    }
}

/// Returns the commands that start the load of an emulated machine. The load continues during the
/// later commands.
pub(crate) fn load(cell: &Cell) -> Vec<String> {
    match cell.load {
        Load::SystemCalls => vec!["& lab-disturb calls 0".to_owned()],
        Load::Bursts => vec!["& lab-disturb turns 0 1000 10007 /tmp/turns".to_owned()],
        Load::Network => vec!["lab-network storm".to_owned()],
        // stress-ng takes a while to start, so a command waits until it works.
        Load::StressNg => {
            let begins = format!("& {}", stress_ng::command(0, "/tmp"));
            [begins].into_iter().chain(load_works(cell)).collect()
        }
        Load::Idle | Load::NetworkElsewhere => Vec::new(),
    }
}

/// Returns a command that fails if the load is not active; `None` without a program. After the
/// measurement, the command shows that the load lasted until then. Packets need no program.
pub(crate) fn load_works(cell: &Cell) -> Option<String> {
    let program = match cell.load {
        Load::SystemCalls | Load::Bursts => "lab-disturb",
        Load::StressNg => stress_ng::PROGRAM,
        Load::Idle | Load::Network | Load::NetworkElsewhere => return None,
    };
    Some(format!("lab-guest works {program}"))
}

/// Returns the first commands of a guest on this machine. They report that the guest has booted,
/// and let it sleep while the host prepares the measurement.
pub(crate) fn begins(sleep_ms: u32) -> Vec<String> {
    vec![THERE.to_owned(), format!("lab-vmm run:{sleep_ms} --")]
}

/// Returns all commands of a guest of KVM. During the guest's first sleep, the host stops the guest
/// until the host's recorder runs. During the last sleep, the host writes the rest of its
/// recording.
pub(crate) fn in_guest(cell: &Cell, measure: &Measure, sleeps_ms: [u32; 2]) -> Vec<String> {
    let [first_ms, last_ms] = sleeps_ms;
    let files: Vec<String> = inside(cell, measure).collect();
    let mut commands = begins(first_ms);
    commands.extend(files.iter().map(|file| command(cell, measure, file)));
    commands.extend([
        format!("lab-vmm run:{last_ms} --"),
        format!("lab-guest save {}", files.join(" ")),
    ]);
    commands
}

/// Returns the number of these commands that have ended when all repetitions are measured.
pub(crate) fn until_measured(measure: &Measure) -> usize {
    2 + measure.repeat as usize
}

/// Returns the additional kernel command line for a guest of Xen.
pub(crate) fn command_line(cell: &Cell) -> String {
    let slop = cell.timer_slop;
    let slop = slop.map(|it| format!("xen_timer_slop={}", it.ns()));
    slop.unwrap_or_default()
}

/// Returns the Debian package of a kernel. `ordinary` is the package of the ordinary kernel in this
/// environment.
pub(crate) fn image(kernel: CellKernel, ordinary: bed::DebianKernel) -> bed::DebianKernel {
    match kernel {
        CellKernel::Ordinary => ordinary,
        CellKernel::Rt => bed::DebianKernel::Rt,
    }
}

/// Returns the Debian programs that a cell's emulated machines need, including those of the host's
/// load.
pub(crate) fn packaged(cell: &Cell) -> Vec<DebianProgram> {
    let loads = (cell.load == Load::StressNg).then_some(DebianProgram::StressNg);
    packaged_to_measure(cell).into_iter().chain(loads).collect()
}

/// Returns the Debian program that measures, which is the only one that guests need. `None` if
/// vmnoise measures.
pub(crate) fn packaged_to_measure(cell: &Cell) -> Option<DebianProgram> {
    (cell.workload == CellWorkload::Cyclictest).then_some(DebianProgram::Cyclictest)
}

/// Returns the commands with the name of their machine in front.
pub(crate) fn on<C: AsRef<str>>(side: &str, commands: &[C]) -> Vec<String> {
    let commands = commands.iter();
    commands
        .map(|command| format!("{side}: {}", command.as_ref()))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::*;
    use crate::scenario::Scenario;

    fn refused(workload: &str, period: &str, duration: &str) -> Option<&'static str> {
        let text = format!(
            "title = \"t\"\nsource = \"s\"\n[axes]\nhypervisor = \"bare\"\nhost-kernel = \"rt\"\n\
             period = \"{period}\"\n[measure]\nworkload = \"{workload}\"\nduration = \"{duration}\"\n"
        );
        let scenario = Scenario::parse(&text).unwrap();
        refusal(&scenario.cells()[0], &scenario.measure)
    }

    #[test]
    fn cyclictest_counts_whole_periods_of_whole_microseconds() {
        assert_eq!(refused("cyclictest", "100us", "100us"), None);
        let never_ends = refused("cyclictest", "100us", "99us").unwrap();
        assert!(never_ends.contains("`duration`"), "{never_ends}");
        let of_ns = refused("cyclictest", "1500ns", "1s").unwrap();
        assert!(of_ns.contains("`period`"), "{of_ns}");
        assert_eq!(refused("timerlat", "1500ns", "1s"), None);
    }
}
