//! `lab cloud|rt CPUS|virtual:SHIFT COMMAND...` boots one lab, shows what each command
//! said and how it ended, and how long all of it took.
#![forbid(unsafe_code)]

use std::time::Instant;

use anyhow::{Result, bail};
use vmnoise_labs::bed::{Kernel, Lab};
use vmnoise_labs::lab_program;

const USAGE: &str = "usage: lab cloud|rt CPUS|virtual:SHIFT COMMAND...";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [kernel, time, ref commands @ ..] = arguments[..] else {
        bail!(USAGE);
    };
    let lab = Lab::kernel(match kernel {
        "cloud" => Kernel::Cloud,
        "rt" => Kernel::Rt,
        _ => bail!(USAGE),
    });
    let lab = match time.strip_prefix("virtual:") {
        Some(shift) => lab.virtual_time(shift.parse()?),
        None => lab.cpus(time.parse()?),
    };
    let start = Instant::now();
    let report = lab.program(&lab_program("lab-disturb")?).run(commands)?;
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
