//! `validate` compares `vmnoise osnoise` with the kernel's own tracer and counters in
//! labs, a guest's recording with and without its host's, and a guest with its host on this
//! machine, and writes the figures into docs/validation.md.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use std::path::Path;

use anyhow::{Context, Result};
use vmnoise_labs::oracle::{beside_the_kernel, flagship, nmis, report, residuals, softirqs};

const CPU: u32 = 1;
const ROUNDS: usize = 5;
const SECONDS: u64 = 5;

fn main() -> Result<()> {
    eprintln!("a guest and its host in turn");
    let residuals = residuals(CPU, ROUNDS, SECONDS)?;
    eprintln!("beside the kernel's osnoise, twice");
    let beside = beside_the_kernel()?;
    let repeats = beside_the_kernel()? == beside;
    eprintln!("NMIs");
    let nmis = nmis()?;
    eprintln!("soft interrupts");
    let softirqs = softirqs()?;
    // Last, and its failure is told last: what was measured before is written all the same.
    eprintln!("a guest beside a busy task of its host");
    let flagship = flagship();
    let told = flagship.as_ref().map(report::flagship);
    let sections = [
        told.unwrap_or_else(|_| report::NO_FLAGSHIP.to_owned()),
        report::beside(&beside, repeats),
        report::nmis(&nmis),
        report::soft_interrupts(&softirqs),
        report::guest_and_host(&residuals),
    ];
    let generated = sections.join("\n");
    print!("{generated}");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/validation.md");
    let old = std::fs::read_to_string(&page).with_context(|| page.display().to_string())?;
    std::fs::write(&page, report::renewed(&old, &generated)?)?;
    flagship.map(|_| ())
}
