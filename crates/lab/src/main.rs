//! `vmnoise-lab`: repeats the papers' experiments.
#![forbid(unsafe_code)]

mod arguments;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use arguments::{LabArguments, LabCommand, LabRunArguments};
use clap::Parser;
use signal_hook::consts::{SIGINT, SIGTERM};
use vmnoise_lab::folder::Folder;
use vmnoise_lab::place::CellPlace;
use vmnoise_lab::run::RunStep;
use vmnoise_lab::scenario::{Cell, Scenario};
use vmnoise_lab::{library, needs, plan, report, run, scenario};

fn main() -> ExitCode {
    match dispatch(LabArguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vmnoise-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: LabCommand) -> Result<()> {
    match command {
        LabCommand::List => print(&list()?),
        LabCommand::Show { scenario } => print(&show(&read(&scenario)?.1)),
        LabCommand::Schema => print(&scenario::schema()?),
        LabCommand::Plan {
            scenario,
            only,
            accel,
        } => {
            let (_, scenario) = read(&scenario)?;
            let place = CellPlace::of(accel)?;
            let planned = chosen(&scenario, &only, &place)?;
            print(&plan::text(&scenario, &planned, &place))?;
            print(&format!("{}\n", needs::check(&planned, &place)?))
        }
        LabCommand::Run(arguments) => measure(&arguments),
        LabCommand::Report { folders, output } => write_report(&folders, &output),
        LabCommand::Merge { folders, output } => merge(&folders, &output),
    }
}

/// Prints to stdout. A closed pipe is not an error.
fn print(text: &str) -> Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
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

/// Reads a scenario by its name or from a file. Returns its text, and the parsed scenario.
fn read(scenario: &str) -> Result<(String, Scenario)> {
    if let Some(text) = library::text(scenario) {
        return Ok((text.to_owned(), Scenario::parse(text)?));
    }
    let text = std::fs::read_to_string(scenario).with_context(|| {
        format!("{scenario} is neither a readable file nor a name from `vmnoise-lab list`")
    })?;
    let parsed = Scenario::parse(&text).with_context(|| scenario.to_owned())?;
    Ok((text, parsed))
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

fn chosen(
    scenario: &Scenario,
    only: &[String],
    place: &CellPlace,
) -> Result<Vec<plan::PlannedCell>> {
    let names: Vec<String> = scenario.cells().iter().map(Cell::name).collect();
    if let Some(unknown) = only.iter().find(|cell| !names.contains(cell)) {
        bail!(
            "there is no cell `{unknown}`; the cells are {}",
            names.join(", ")
        );
    }
    Ok(plan::cells(scenario, only, place))
}

fn measure(arguments: &LabRunArguments) -> Result<()> {
    let (mut text, mut scenario) = read(&arguments.scenario)?;
    if let Some(repeat) = arguments.repeat {
        text = scenario::repeated(&text, repeat)?;
        scenario = Scenario::parse(&text)?;
    }
    let place = CellPlace::of(arguments.accel)?;
    let planned = chosen(&scenario, &arguments.only, &place)?;
    if let Some(lack) = place.lack() {
        bail!("{lack}");
    }
    ensure!(
        planned.iter().any(|it| it.refusal.is_none()),
        "no cell can be run here: see `vmnoise-lab plan`"
    );
    ready(&place)?;
    needs::check(&planned, &place)?;
    let folder = arguments.output.clone().unwrap_or_else(|| {
        let name = Path::new(&arguments.scenario).file_stem();
        Path::new("papers").join(name.unwrap_or(arguments.scenario.as_ref()))
    });
    let folder = Folder::create(&folder, &text)?;
    let asked_to_end = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // A second signal ends the process at once.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&asked_to_end))?;
        signal_hook::flag::register(signal, Arc::clone(&asked_to_end))?;
    }
    let begun = Instant::now();
    let minutes = plan::estimate(&planned, &place).as_secs().div_ceil(60);
    println!("about {minutes} min: see `vmnoise-lab plan`");
    let seed = arguments.seed;
    let failed = run::run(&folder, planned, &place, seed, &asked_to_end, &say)?;
    println!("took {} s", begun.elapsed().as_secs());
    ensure!(
        !asked_to_end.load(Ordering::Relaxed),
        "ended early: the same command goes on with the remaining cells"
    );
    ensure!(
        failed == 0,
        "{failed} cells failed: the same command tries them again"
    );
    Ok(())
}

/// Checks that the programs that every cell needs are available, before a run spends time.
fn ready(place: &CellPlace) -> Result<()> {
    ensure!(
        vmnoise_testbed::find_binary().is_some(),
        "vmnoise itself is not built: run `make build` first"
    );
    if !place.takes_qemu() {
        return Ok(());
    }
    let qemu = std::process::Command::new("qemu-system-x86_64")
        .arg("--version")
        .output();
    ensure!(
        qemu.is_ok_and(|output| output.status.success()),
        "QEMU is not here: install the package qemu-system-x86"
    );
    Ok(())
}

fn say(step: RunStep<'_>) {
    match step {
        RunStep::Kept(cell) => println!("{cell}: measured before"),
        RunStep::Refused(cell, why) => println!("{cell}: not run: {why}"),
        RunStep::Begins(cell) => println!("{cell}: begins"),
        RunStep::Ended(ended, left) => {
            let seconds = ended.took_ms / 1000;
            let outcome = match &ended.failure {
                Some(why) => format!("failed: {}", report::brief(why)),
                None => {
                    let worst = ended.repetitions.iter().map(|it| it.worst_ns).max();
                    format!("worst {:.1} us", worst.unwrap_or(0) as f64 / 1e3)
                }
            };
            println!("{}: {outcome} ({seconds} s); {left} cells left", ended.cell);
        }
    }
}

fn write_report(folders: &[PathBuf], output: &Path) -> Result<()> {
    let folders = folders.iter().map(|folder| Folder::open(folder));
    let folders: Vec<Folder> = folders.collect::<Result<_>>()?;
    report::write(&folders, output)?;
    println!("{}", output.display());
    for ending in ["md", "csv"] {
        println!("{}", output.with_extension(ending).display());
    }
    Ok(())
}

fn merge(folders: &[PathBuf], output: &Path) -> Result<()> {
    let folders = folders.iter().map(|folder| Folder::open(folder));
    let folders: Vec<Folder> = folders.collect::<Result<_>>()?;
    let first = folders.first().context("nothing to merge")?;
    let merged = Folder::create(output, &first.text()?)?;
    for folder in &folders {
        merged.take(folder)?;
    }
    let cells = merged.scenario.cells();
    let mut measured = 0;
    for cell in &cells {
        measured += usize::from(merged.ended(&cell.name())?.is_some());
    }
    println!("{}: {measured} of {} cells", output.display(), cells.len());
    Ok(())
}
