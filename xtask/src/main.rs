//! Runs the steps of CI: `cargo xtask check`, `cargo xtask test`, `cargo xtask rest`, `cargo xtask
//! lab-full`, `cargo xtask mutations`, `cargo xtask supply`, `cargo xtask bench`, `cargo xtask
//! sbom` and `cargo xtask weight`.
#![forbid(unsafe_code)]

mod abilities;
#[cfg(test)]
mod additions;
mod bench;
mod checks;
mod clock;
mod gate;
mod go;
mod libtest;
mod linted;
mod lock;
mod machine;
mod mutations;
mod npm;
mod oracle;
mod panics;
mod parts;
mod patch;
mod programs;
mod sbom;
mod suite;
mod supervised;
mod supply;
mod tally;
mod tiers;
mod together;
mod tree;
mod weight;

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let task = arguments.next().unwrap_or_default();
    let outcome = match task.as_str() {
        "check" => gate::check(),
        "test" => gate::test(),
        "rest" => gate::rest(),
        "lab-full" => gate::lab_full(),
        "mutations" => mutations::run(&arguments.collect::<Vec<_>>()),
        "supply" => gate::supply_alone(),
        "bench" => bench::all(),
        "sbom" => sbom(arguments.next()),
        "weight" => weight::print(arguments.next().as_ref().map(Path::new)),
        _ => Err(anyhow::anyhow!(
            "usage: cargo xtask check | test | rest | lab-full | mutations [WORD...] | supply | bench | sbom FOLDER | weight [PAGE]"
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

fn sbom(folder: Option<String>) -> Result<()> {
    sbom::write(folder.context("usage: cargo xtask sbom FOLDER")?.as_ref())
}

/// Runs a command, shows its output, and fails if the command fails.
fn run(program: &str, arguments: &[&str]) -> Result<()> {
    run_command(Command::new(program).args(arguments))
}

/// Does the same as `run` for a command with an environment or a folder of its own.
fn run_command(command: &mut Command) -> Result<()> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    let line = words.join(" ");
    println!("== {line}");
    let status = command
        .status()
        .with_context(|| format!("starting `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// Returns the path of the cargo that started this program.
fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}
