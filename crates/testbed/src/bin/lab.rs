//! Boots one lab from the command line:
//!
//! - `lab cloud|plain|rt[@SUITE] CPUS|virtual:SHIFT COMMAND...` prints the output and the exit
//!   status of each command, and how long the lab took. If commands begin with `guest: `, the lab
//!   carries a Linux guest, which runs these commands after `lab-guest boot`.
//! - `lab xen|xen-pvh|xen-hvm[,WORD...] COMMAND...` boots a lab with Xen. The guest runs the
//!   commands that begin with `guest: `, and Dom0 runs the other commands. The words are appended
//!   to the command line of the guest's kernel.
//! - `lab reach SUITE` fails if the mirror does not have this Debian suite.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use vmnoise_testbed::bed::{CommandOutput, DebianKernel, DebianSuite, Lab, XenLab};
use vmnoise_testbed::lab_program;

const USAGE: &str = "usage: lab cloud|plain|rt[@SUITE] CPUS|virtual:SHIFT COMMAND... | \
                     xen|xen-pvh|xen-hvm[,WORD...] COMMAND... | reach SUITE";
/// Prefix of a command that the guest runs.
const GUEST: &str = "guest: ";
const PROGRAMS: [&str; 8] = [
    "chaos",
    "lab-disturb",
    "lab-guest",
    "lab-poll",
    "lab-tasks",
    "lab-tracefs",
    "lab-tty",
    "lab-vmm",
];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["reach", suite] = arguments[..] {
        return suite_of(Some(suite))?.reach();
    }
    let start = Instant::now();
    let ran_on = match arguments[..] {
        [machine, ref commands @ ..] if machine.starts_with("xen") => xen(machine, commands)?,
        [kernel, time, ref commands @ ..] => linux(kernel, time, commands)?,
        _ => bail!(USAGE),
    };
    eprintln!("{ran_on} in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Runs the commands in a lab without Xen.
fn linux(kernel: &str, time: &str, commands: &[&str]) -> Result<String> {
    let (kernel, suite) = match kernel.split_once('@') {
        Some((kernel, suite)) => (kernel, Some(suite)),
        None => (kernel, None),
    };
    let kernel = match kernel {
        "cloud" => DebianKernel::Cloud,
        "rt" => DebianKernel::Rt,
        "plain" => DebianKernel::Plain,
        _ => bail!(USAGE),
    };
    let lab = Lab::kernel(kernel).from(suite_of(suite)?);
    let lab = match time.strip_prefix("virtual:") {
        Some(shift) => lab.virtual_time(shift.parse()?),
        None => lab.cpus(time.parse()?),
    };
    let (in_guest, commands) = split(commands);
    let lab = if in_guest.is_empty() {
        lab
    } else {
        lab.guest(&in_guest)
    };
    let lab = programs()?.iter().fold(lab, |lab, it| lab.program(it));
    let report = lab.run(&commands)?;
    show(&report.outputs);
    Ok(report.kernel_version)
}

/// Runs the commands in a lab with Xen.
fn xen(machine: &str, commands: &[&str]) -> Result<String> {
    let (machine, words) = machine.split_once(',').unwrap_or((machine, ""));
    let lab = match machine {
        "xen" => XenLab::pv(),
        "xen-pvh" => XenLab::pvh(),
        "xen-hvm" => XenLab::hvm(),
        _ => bail!(USAGE),
    };
    let (in_guest, in_dom0) = split(commands);
    let lab = lab.command_line(&words.replace(',', " "));
    let lab = programs()?.iter().fold(lab, |lab, it| lab.program(it));
    let report = lab.run(&in_dom0, &in_guest)?;
    show(&report.guest);
    show(&report.dom0.outputs);
    Ok(report.dom0.kernel_version)
}

/// Separates the guest's commands from the other commands.
fn split<'a>(commands: &[&'a str]) -> (Vec<&'a str>, Vec<&'a str>) {
    let (in_guest, others): (Vec<&str>, Vec<&str>) =
        commands.iter().partition(|it| it.starts_with(GUEST));
    let in_guest = in_guest.iter().filter_map(|it| it.strip_prefix(GUEST));
    (in_guest.collect(), others)
}

fn programs() -> Result<Vec<PathBuf>> {
    PROGRAMS
        .iter()
        .map(|program| lab_program(program))
        .collect()
}

fn show(outputs: &[CommandOutput]) {
    for output in outputs {
        print!("{}", output.stdout);
        eprint!("{}", output.stderr);
        match output.status {
            Some(status) => eprintln!("status {status}"),
            None => eprintln!("ended by a signal"),
        }
    }
}

fn suite_of(name: Option<&str>) -> Result<DebianSuite> {
    let suite = DebianSuite::ALL
        .into_iter()
        .find(|suite| suite.name() == name);
    suite.with_context(|| format!("no suite is called {}; {USAGE}", name.unwrap_or_default()))
}
