//! Measures the figures of docs/validation.md, and writes them into that file. The program makes
//! these comparisons in labs and on this machine:
//!
//! - only without an argument: `vmnoise osnoise` with the kernel's own tracer and counters, a
//!   guest's recording with the join of guest and host, and a guest with its host.
//! - `validate timerlat`: `vmnoise timerlat` with the kernel's tracer, with cyclictest and with
//!   known causes.
//! - `validate xen`: a guest of Xen with the default TIMER_SLOP with a guest that has less.
//! - `validate audit`: the findings of `vmnoise audit` with faults that were caused.
//! - `validate mpi`: an MPI program with the predictions of `vmnoise scale`.
//!
//! With an argument, only this comparison runs. Without an argument, all comparisons run.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use std::path::Path;

use anyhow::{Context, Result, bail};
use vmnoise_testbed::faults::{SETS, prove};
use vmnoise_testbed::mpi::{Slurm, beside, by_mpirun, by_srun};
use vmnoise_testbed::oracle::report::{PagePart, TimerlatTruth};
use vmnoise_testbed::oracle::xen_slop::slop;
use vmnoise_testbed::oracle::{
    beside_cyclictest, beside_the_kernel, beside_timerlat, busiest_exit, causes, descheduled,
    flagship, here_beside_cyclictest, nmis, report, residuals, softirqs,
};

const VALIDATION: &str = "docs/validation.md";
const CPU: u32 = 1;
const ROUNDS: usize = 5;
const SECONDS: u64 = 5;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => {
            noise()?;
            timerlat()?;
            xen()?;
            audit()?;
            mpi()
        }
        ["audit"] => audit(),
        ["mpi"] => mpi(),
        ["timerlat"] => timerlat(),
        ["xen"] => xen(),
        _ => bail!("usage: validate [timerlat|xen|audit|mpi]"),
    }
}

fn noise() -> Result<()> {
    eprintln!("a guest with a busy task of its host");
    let flagship = report::flagship(&flagship()?);
    eprintln!("an exit with much of its host in it");
    let busiest_exit = busiest_exit()?;
    eprintln!("a guest and its host in turn");
    let residuals = residuals(CPU, ROUNDS, SECONDS)?;
    eprintln!("comparison with the kernel's osnoise, twice");
    let beside = beside_the_kernel()?;
    let repeats = beside_the_kernel()? == beside;
    eprintln!("NMIs");
    let nmis = nmis()?;
    eprintln!("soft interrupts");
    let softirqs = softirqs()?;
    let sections = [
        flagship,
        report::busiest_exit(&busiest_exit),
        report::beside(&beside, repeats),
        report::nmis(&nmis),
        report::soft_interrupts(&softirqs),
        report::guest_and_host(&residuals),
    ];
    let generated = sections.join("\n");
    print!("{generated}");
    renew(PagePart::Noise, &generated)
}

fn timerlat() -> Result<()> {
    eprintln!("comparison with cyclictest on this machine");
    let here = here_beside_cyclictest([0, CPU])?;
    eprintln!("the same under virtual time");
    let cyclictest = beside_cyclictest()?;
    eprintln!("comparison with the kernel's timerlat");
    let kernel = beside_timerlat()?;
    eprintln!("delays of known cause and length");
    let generated = report::timerlat(&TimerlatTruth {
        kernel,
        cyclictest,
        here,
        causes: causes()?,
        descheduled: descheduled()?,
    });
    print!("{generated}");
    renew(PagePart::Timerlat, &generated)
}

fn xen() -> Result<()> {
    eprintln!("a guest of Xen with more and with less slop in its timers");
    let generated = report::xen(&slop()?);
    print!("{generated}");
    renew(PagePart::Xen, &generated)
}

fn audit() -> Result<()> {
    eprintln!("faults that the audit has to find");
    let generated = report::faults(&prove(&SETS)?);
    print!("{generated}");
    renew(PagePart::Faults, &generated)
}

fn mpi() -> Result<()> {
    eprintln!("an MPI program and its prediction");
    let folder = tempfile::tempdir()?;
    let slurm = Slurm::start(folder.path())?;
    let comparisons = [by_mpirun(), by_srun(&slurm)].concat();
    let compared = comparisons.into_iter().map(|comparison| {
        let folder = tempfile::tempdir()?;
        let outcomes = beside(&comparison, folder.path())?;
        Ok((comparison, outcomes))
    });
    let generated = report::mpi(&compared.collect::<Result<Vec<_>>>()?);
    print!("{generated}");
    renew(PagePart::Mpi, &generated)
}

/// Writes a generated section into docs/validation.md of this source tree.
fn renew(part: PagePart, generated: &str) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(VALIDATION);
    let old = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let new = report::renewed(&old, part, generated).with_context(|| path.display().to_string())?;
    Ok(std::fs::write(&path, new)?)
}
