//! `vmnoise-lab`: the papers' experiments, one command each.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use vmnoise_lab::library;
use vmnoise_lab::scenario::{Cell, Scenario};

/// The experiments of the papers on latencies and noise of virtual machines, to be run again.
#[derive(Debug, Parser)]
#[command(name = "vmnoise-lab", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the scenarios that come with the program.
    List,
    /// Shows a scenario: where it comes from, what it measures, and its cells.
    Show {
        /// One of `vmnoise-lab list`, or a file.
        #[arg(value_name = "SCENARIO")]
        scenario: String,
    },
}

fn main() -> ExitCode {
    match run(&Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vmnoise-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Result<()> {
    let text = match command {
        Command::List => list()?,
        Command::Show { scenario } => show(&read(scenario)?),
    };
    // Who reads it may have seen enough.
    let written = io::stdout().write_all(text.as_bytes());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

fn list() -> Result<String> {
    let mut lines = String::new();
    for (name, text) in library::ALL {
        let scenario = Scenario::parse(text).context(name)?;
        lines += &format!("{name:24} {}\n", scenario.title);
    }
    Ok(lines)
}

/// By its name, or from its file.
fn read(scenario: &str) -> Result<Scenario> {
    if let Some(text) = library::text(scenario) {
        return Ok(Scenario::parse(text)?);
    }
    let path = Path::new(scenario);
    let text = std::fs::read_to_string(path).with_context(|| {
        format!("{scenario} is no file that can be read, and none of `vmnoise-lab list`")
    })?;
    Scenario::parse(&text).with_context(|| scenario.to_owned())
}

fn show(scenario: &Scenario) -> String {
    let cells = scenario.cells();
    let measure = &scenario.measure;
    let mut text = format!("{}\n{}\n", scenario.title, scenario.source);
    text += &format!(
        "{} cells, each measured for {}, {} times\n",
        cells.len(),
        measure.duration,
        measure.repeat
    );
    for name in cells.iter().map(Cell::name) {
        text += &format!("  {name}\n");
    }
    text
}
