//! `validate` compares `vmnoise osnoise` with the kernel's own tracer and counters in
//! labs, a guest's recording with and without its host's, and a guest with its host on this
//! machine, and writes the figures into docs/validation.md, and the first of them into
//! README.md.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use std::path::Path;

use anyhow::{Context, Result};
use vmnoise_labs::oracle::{
    beside_the_kernel, busiest_exit, flagship, nmis, report, residuals, softirqs,
};

const CPU: u32 = 1;
const ROUNDS: usize = 5;
const SECONDS: u64 = 5;

fn main() -> Result<()> {
    eprintln!("a guest beside a busy task of its host");
    let flagship = report::flagship(&flagship()?);
    eprintln!("an exit with much of its host in it");
    let busiest_exit = busiest_exit()?;
    eprintln!("a guest and its host in turn");
    let residuals = residuals(CPU, ROUNDS, SECONDS)?;
    eprintln!("beside the kernel's osnoise, twice");
    let beside = beside_the_kernel()?;
    let repeats = beside_the_kernel()? == beside;
    eprintln!("NMIs");
    let nmis = nmis()?;
    eprintln!("soft interrupts");
    let softirqs = softirqs()?;
    let sections = [
        flagship.clone(),
        report::busiest_exit(&busiest_exit),
        report::beside(&beside, repeats),
        report::nmis(&nmis),
        report::soft_interrupts(&softirqs),
        report::guest_and_host(&residuals),
    ];
    let generated = sections.join("\n");
    print!("{generated}");
    renew("docs/validation.md", &generated)?;
    renew("README.md", &flagship)
}

/// Writes what was generated into this page of the tree.
fn renew(page: &str, generated: &str) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(page);
    let old = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let new = report::renewed(&old, generated).with_context(|| path.display().to_string())?;
    Ok(std::fs::write(&path, new)?)
}
