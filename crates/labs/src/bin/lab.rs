//! `lab cloud|rt[@SUITE] CPUS|virtual:SHIFT COMMAND...` boots one lab, shows what each
//! command said and how it ended, and how long all of it took. `lab reach SUITE` fails
//! where that suite of Debian cannot be had. With commands that begin with `guest: ` the
//! lab carries a Linux guest, which runs them once `lab-guest boot` has started it.
#![forbid(unsafe_code)]

use std::time::Instant;

use anyhow::{Context, Result, bail};
use vmnoise_labs::bed::{Kernel, Lab, Suite};
use vmnoise_labs::lab_program;

const USAGE: &str = "usage: lab cloud|rt[@SUITE] CPUS|virtual:SHIFT COMMAND... | reach SUITE";
/// Begins a command of the guest.
const GUEST: &str = "guest: ";
const PROGRAMS: [&str; 5] = [
    "lab-disturb",
    "lab-guest",
    "lab-poll",
    "lab-tracefs",
    "lab-vmm",
];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["reach", suite] = arguments[..] {
        return suite_of(Some(suite))?.reach();
    }
    let [kernel, time, ref commands @ ..] = arguments[..] else {
        bail!(USAGE);
    };
    let (kernel, suite) = match kernel.split_once('@') {
        Some((kernel, suite)) => (kernel, Some(suite)),
        None => (kernel, None),
    };
    let kernel = match kernel {
        "cloud" => Kernel::Cloud,
        "rt" => Kernel::Rt,
        _ => bail!(USAGE),
    };
    let lab = Lab::kernel(kernel).from(suite_of(suite)?);
    let lab = match time.strip_prefix("virtual:") {
        Some(shift) => lab.virtual_time(shift.parse()?),
        None => lab.cpus(time.parse()?),
    };
    let start = Instant::now();
    let in_guest: Vec<&str> = commands
        .iter()
        .filter_map(|it| it.strip_prefix(GUEST))
        .collect();
    let mut commands = commands.to_vec();
    commands.retain(|command| !command.starts_with(GUEST));
    let lab = if in_guest.is_empty() {
        lab
    } else {
        lab.guest(&in_guest)
    };
    let lab = PROGRAMS.iter().try_fold(lab, |lab, program| {
        anyhow::Ok(lab.program(&lab_program(program)?))
    })?;
    let report = lab.run(&commands)?;
    for output in &report.outputs {
        print!("{}", output.stdout);
        eprint!("{}", output.stderr);
        match output.status {
            Some(status) => eprintln!("status {status}"),
            None => eprintln!("ended by a signal"),
        }
    }
    let took = start.elapsed().as_secs_f64();
    eprintln!("{} in {took:.1} s", report.kernel_version);
    Ok(())
}

fn suite_of(name: Option<&str>) -> Result<Suite> {
    let suite = Suite::ALL.into_iter().find(|suite| suite.name() == name);
    suite.with_context(|| format!("no suite is called {}; {USAGE}", name.unwrap_or_default()))
}
