//! `pair FOLDER [timerlat | SUITE]` records a Linux guest and its host in a lab with a disturber.
//! It writes `quiet.rec`, `guest.rec` and `host.rec` to FOLDER, for `vmnoise explain`. `pair FOLDER
//! two CPUS|virtual:SHIFT [SUITE]` records a host and two guests with two vCPUs each. The host has
//! CPUS CPUs, or one CPU under virtual time.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use std::path::Path;

use anyhow::{Context, Result, bail};
use vmnoise_testbed::bed::{DebianKernel, DebianSuite};
use vmnoise_testbed::neighbours::{Neighbours, files};
use vmnoise_testbed::pair::{DISTURBED, HOST, PairPlan, QUIET};

const USAGE: &str = "usage: pair FOLDER [timerlat | SUITE | two CPUS|virtual:SHIFT [SUITE]]";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let pair = PairPlan::of(DebianKernel::Cloud, DebianSuite::Own)?.virtual_time(0);
    let (folder, pair) = match arguments[..] {
        [folder] => (folder, pair),
        [folder, "timerlat"] => (folder, pair.timerlat()),
        [folder, "two", ref how @ ..] => return two(folder, how),
        [folder, name] => {
            let pair = PairPlan::of(DebianKernel::Cloud, suite(Some(name))?)?;
            (folder, pair.virtual_time(0))
        }
        _ => bail!(USAGE),
    };
    std::fs::create_dir_all(folder).with_context(|| folder.to_owned())?;
    let recorded = pair.duration("200ms").record()?;
    for name in [QUIET, DISTURBED, HOST] {
        copy(recorded.folder(), folder, name)?;
    }
    println!("disturber: {}", recorded.disturber()?);
    Ok(())
}

fn two(folder: &str, how: &[&str]) -> Result<()> {
    let (time, name) = match *how {
        [time] => (time, None),
        [time, suite] => (time, Some(suite)),
        _ => bail!(USAGE),
    };
    let neighbours = Neighbours::of(DebianKernel::Cloud, suite(name)?)?;
    let neighbours = match time.strip_prefix("virtual:") {
        Some(shift) => neighbours.virtual_time(shift.parse()?),
        None => neighbours.cpus(time.parse()?),
    };
    std::fs::create_dir_all(folder).with_context(|| folder.to_owned())?;
    let recorded = neighbours.record()?;
    for name in files() {
        copy(recorded.folder(), folder, &name)?;
    }
    println!("{}", recorded.kernel_version);
    Ok(())
}

fn suite(name: Option<&str>) -> Result<DebianSuite> {
    let mut suites = DebianSuite::ALL.into_iter();
    suites.find(|it| it.name() == name).context(USAGE)
}

fn copy(from: &Path, folder: &str, name: &str) -> Result<()> {
    let path = Path::new(folder).join(name);
    let bytes = std::fs::copy(from.join(name), &path);
    let bytes = bytes.with_context(|| path.display().to_string())?;
    println!("{}: {bytes} bytes", path.display());
    Ok(())
}
