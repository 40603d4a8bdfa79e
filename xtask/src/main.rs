//! What CI does, as commands anyone can run: `cargo xtask test`, `cargo xtask lab-full`,
//! `cargo xtask bench`.
#![forbid(unsafe_code)]

mod bench;
mod checks;
mod failures;
mod licences;
mod npm;
mod oracle;
mod tiers;

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

fn main() -> ExitCode {
    let task = std::env::args().nth(1).unwrap_or_default();
    let outcome = match task.as_str() {
        "test" => test(),
        "lab-full" => tiers::run_lab_full(),
        "checks" => checks::all(),
        "bench" => bench::all(),
        _ => Err(anyhow::anyhow!(
            "usage: cargo xtask test | lab-full | checks | bench"
        )),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Checks of the text first: they are quick, and what they find is quick to mend.
fn test() -> Result<()> {
    checks::all()?;
    tiers::run_all()
}

/// Runs a command to its end and shows what it prints.
fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let line = format!("{program} {}", arguments.join(" "));
    println!("== {line}");
    let status = Command::new(program)
        .args(arguments)
        .status()
        .with_context(|| format!("starting `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// The cargo that runs this task.
fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}
