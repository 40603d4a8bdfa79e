//! Causes faults inside a lab:
//!
//! - `lab-fault cycle SECONDS NAME...` causes these faults at the same time. It prints the findings
//!   of `vmnoise audit`, and the effect of the audit's script, as JSON.
//! - `lab-fault again SECONDS NAME...` records with the same disturbers while all settings are
//!   clean.
//! - `lab-fault work WORD...` runs as a disturber without end.

use anyhow::{Context, Result, bail};
use vmnoise_testbed::faults::{InjectedFault, OTHER, QUIET, cycle, named, work};
use vmnoise_workload::thread;

pub fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["cycle" | "again", ..] = arguments[..] {
        // By default a process may not run on an isolated CPU.
        thread::pin(&[OTHER, QUIET])?;
    }
    match arguments[..] {
        ["work", ref words @ ..] => match work(words)? {},
        ["cycle", seconds, ref names @ ..] => {
            let outcome = cycle::cycle(&faults(names)?, seconds)?;
            println!("{}", serde_json::to_string(&outcome)?);
        }
        ["again", seconds, ref names @ ..] => {
            let recorded = cycle::again(&faults(names)?, seconds)?;
            println!("{}", serde_json::to_string(&recorded)?);
        }
        _ => bail!("usage: lab-fault cycle|again SECONDS NAME... | work WORD..."),
    }
    Ok(())
}

fn faults(names: &[&str]) -> Result<Vec<&'static InjectedFault>> {
    let faults = names
        .iter()
        .map(|name| named(name).with_context(|| format!("no fault is called {name}")));
    faults.collect()
}
