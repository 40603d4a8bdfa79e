//! `fuzz`: an endless search for inputs that break a target. Each target runs in a process of its
//! own, so the search survives a panic, an abort, a stack overflow, or an endless loop.
#![forbid(unsafe_code)]

mod search;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use vmnoise_fuzz::{BROKEN, FuzzTarget, TARGETS};

/// Tries inputs on the parts of vmnoise that read data
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Search for inputs that break a property
    Search(search::Search),
    /// Try these inputs again
    Again {
        /// Name of the target
        #[arg(value_parser = target)]
        target: FuzzTarget,
        /// Files with inputs
        files: Vec<PathBuf>,
    },
    #[command(hide = true)]
    Worker(worker::FuzzWorker),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Search(search) => search.run(),
        Command::Worker(worker) => worker.run().map(|()| true),
        Command::Again { target, files } => again(target, &files).map(|()| true),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("fuzz: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn target(name: &str) -> Result<FuzzTarget, String> {
    let mut known = TARGETS.into_iter().chain([BROKEN]);
    known.find(|target| target.name == name).ok_or_else(|| {
        let names = TARGETS.map(|target| target.name).join(", ");
        format!("there are {names}")
    })
}

fn again(target: FuzzTarget, files: &[PathBuf]) -> Result<()> {
    for file in files {
        let bytes = std::fs::read(file).with_context(|| file.display().to_string())?;
        eprintln!("{} {}", target.name, file.display());
        (target.check)(&bytes);
    }
    Ok(())
}
