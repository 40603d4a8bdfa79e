//! What measures, wherever it runs, and what is brought out of there.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use vmnoise_labs::bed::{self, Packaged};
use vmnoise_labs::stress_ng;

use crate::scenario::{Cell, Exercise, Hypervisor, Kernel, Load, Measure, Policy, Workload};

/// What a guest runs first, or alone: it is there when this has ended.
pub(crate) const THERE: &str = "vmnoise --version";

/// The recording of the host of a guest.
pub const HOST: &str = "host.vmn";

/// The program of rt-tests, as machines have it that were booted for this, and hosts.
pub const CYCLICTEST: &str = "cyclictest";
/// How long a latency may be of which it keeps how often it came, nanoseconds: four periods of the papers. It has a
/// counter for each nanosecond, and writes them all down in the end.
const REACH_NS: u32 = 200_000;

/// A cell that is to be measured.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// Which.
    pub cell: &'a Cell,
    /// What is measured in it, and how often.
    pub measure: &'a Measure,
    /// What is random comes from it, where time is virtual.
    pub seed: u64,
    /// Becomes true when it is to end before.
    pub asked_to_end: &'a Arc<AtomicBool>,
}

/// What one cell brought out.
#[derive(Debug, PartialEq, Eq)]
pub struct Brought {
    /// Recordings by the names of their files.
    pub recordings: Vec<(String, Vec<u8>)>,
    /// What its machines said while they ran.
    pub console: String,
    /// What was run, on which side.
    pub commands: Vec<String>,
}

/// What all repetitions of a cell leave, by the names of their files: recordings, or what cyclictest writes.
pub fn files(cell: &Cell, measure: &Measure) -> impl Iterator<Item = String> + use<> {
    let ending = match cell.workload {
        Workload::Cyclictest => "json",
        Workload::Timerlat | Workload::Osnoise | Workload::Exercise => "vmn",
    };
    (1..=measure.repeat).map(move |repetition| format!("measured-{repetition}.{ending}"))
}

/// What the program that made a recording said, where it says something.
pub fn said(recording: &str) -> String {
    recording.replace(".vmn", ".json")
}

/// Where they are inside a machine that was booted for them.
pub(crate) fn inside(cell: &Cell, measure: &Measure) -> impl Iterator<Item = String> + use<> {
    files(cell, measure).map(|file| format!("/tmp/{file}"))
}

/// Why this cannot be measured as it is asked for, wherever it is.
pub(crate) fn refusal(cell: &Cell, measure: &Measure) -> Option<&'static str> {
    let (period_ns, duration_ns) = (cell.period.ns(), measure.duration.ns());
    match cell.workload {
        Workload::Cyclictest if period_ns == 0 || !period_ns.is_multiple_of(1000) => Some(
            "cyclictest is told its `period` in microseconds: make it a whole number of them, at least one",
        ),
        // It takes 0 of them for no end.
        Workload::Cyclictest if duration_ns < period_ns => Some(
            "cyclictest is told how many periods to wait for: make `duration` at least one `period`",
        ),
        Workload::Cyclictest | Workload::Timerlat | Workload::Osnoise | Workload::Exercise => None,
    }
}

/// What measures once, and records it here.
pub(crate) fn command(cell: &Cell, measure: &Measure, output: &str) -> String {
    let duration = measure.duration;
    let period = cell.period;
    // As `-P` has it.
    let policy = match cell.policy {
        Policy::Usual => "",
        Policy::Other => " -P o:0",
        Policy::Fifo1 => " -P f:1",
    };
    match cell.workload {
        Workload::Cyclictest => {
            let policy = match cell.policy {
                Policy::Usual => "-p95",
                Policy::Other => "--policy=other",
                Policy::Fifo1 => "-p1",
            };
            let (us, times) = (period.ns() / 1000, duration.ns() / period.ns());
            format!(
                "{CYCLICTEST} -q -m -N -t1 {policy} -i {us} -l {times} -h {REACH_NS} --histfile=/dev/null --json={output}"
            )
        }
        Workload::Timerlat => {
            format!("vmnoise timerlat -q -p {period} -d {duration}{policy} -o {output}")
        }
        Workload::Osnoise if cell.hypervisor == Hypervisor::Microvm => {
            format!("vmnoise microvm -d {duration}{policy} -o {output}")
        }
        Workload::Osnoise => format!("vmnoise osnoise -q -d {duration}{policy} -o {output}"),
        Workload::Exercise => {
            let exercise = cell.exercise.unwrap_or(Exercise::Cpuid);
            format!("vmnoise microvm --exercise {exercise} -d {duration}{policy} --format json")
        }
    }
}

/// Begins what loads an emulated machine, and works on beside the commands after it.
pub(crate) fn load(cell: &Cell) -> Vec<String> {
    match cell.load {
        Load::SystemCalls => vec!["& lab-disturb calls 0".to_owned()],
        Load::Bursts => vec!["& lab-disturb turns 0 1000 10007 /tmp/turns".to_owned()],
        Load::Network => vec!["lab-network storm".to_owned()],
        // It takes long to begin.
        Load::StressNg => {
            let begins = format!("& {}", stress_ng::command(0, "/tmp"));
            [begins].into_iter().chain(load_works(cell)).collect()
        }
        Load::Idle | Load::NetworkElsewhere => Vec::new(),
    }
}

/// Fails unless that is at work: after what is measured, it was until then. Packets go on without a program.
pub(crate) fn load_works(cell: &Cell) -> Option<String> {
    let program = match cell.load {
        Load::SystemCalls | Load::Bursts => "lab-disturb",
        Load::StressNg => stress_ng::PROGRAM,
        Load::Idle | Load::Network | Load::NetworkElsewhere => return None,
    };
    Some(format!("lab-guest works {program}"))
}

/// Begins what a guest of this machine runs: it says that it is there, and sleeps until all is set up around it.
pub(crate) fn begins(sleep_ms: u32) -> Vec<String> {
    vec![THERE.to_owned(), format!("lab-vmm run:{sleep_ms} --")]
}

/// All that a guest of KVM runs. While it sleeps it is stopped, until its host records. At the end it sleeps once more, until its host has written the last of that.
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

/// How many of those commands are over when all is measured.
pub(crate) fn until_measured(measure: &Measure) -> usize {
    2 + measure.repeat as usize
}

/// What the kernel of a guest of Xen is told besides.
pub(crate) fn command_line(cell: &Cell) -> String {
    let slop = cell.timer_slop;
    let slop = slop.map(|it| format!("xen_timer_slop={}", it.ns()));
    slop.unwrap_or_default()
}

/// The package of Debian; which one is the ordinary kernel depends on who boots it.
pub(crate) fn image(kernel: Kernel, ordinary: bed::Kernel) -> bed::Kernel {
    match kernel {
        Kernel::Ordinary => ordinary,
        Kernel::Rt => bed::Kernel::Rt,
    }
}

/// The programs of Debian that emulated machines carry for a cell, its host's load among them.
pub(crate) fn packaged(cell: &Cell) -> Vec<Packaged> {
    let loads = (cell.load == Load::StressNg).then_some(Packaged::StressNg);
    packaged_to_measure(cell).into_iter().chain(loads).collect()
}

/// The one of them that measures: a guest carries no other.
pub(crate) fn packaged_to_measure(cell: &Cell) -> Option<Packaged> {
    (cell.workload == Workload::Cyclictest).then_some(Packaged::Cyclictest)
}

/// Commands, each with the side that it runs on.
pub(crate) fn on<C: AsRef<str>>(side: &str, commands: &[C]) -> Vec<String> {
    let commands = commands.iter();
    commands
        .map(|command| format!("{side}: {}", command.as_ref()))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

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
