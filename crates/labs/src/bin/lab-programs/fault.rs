//! `lab-fault cycle SECONDS NAME...`, inside a lab, brings these faults about at once, and prints as JSON what `vmnoise
//! audit` found, and what its script gave; `lab-fault again SECONDS NAME...` lets the same loose where all is well;
//! `lab-fault work WORD...` is what is let loose.

use anyhow::{Context, Result, bail};
use vmnoise_labs::faults::{Fault, OTHER, QUIET, cycle, named, work};
use vmnoise_workload::thread;

pub fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["cycle" | "again", ..] = arguments[..] {
        // An isolated CPU is none of those that a process has by itself.
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

fn faults(names: &[&str]) -> Result<Vec<&'static Fault>> {
    let faults = names
        .iter()
        .map(|name| named(name).with_context(|| format!("no fault is called {name}")));
    faults.collect()
}
