//! `cargo bench -p vmnoise-testbed --bench exit_cost_exact`: instructions that tracing adds to each
//! exit of a vCPU. It compares vmnoise, tracefs, `perf kvm stat record` and a bpftrace script with
//! the same exercise. All run on a stock KVM in the lab under virtual time, where each run executes
//! exactly the same instructions. On newer kernels, only vmnoise is measured. The bench also
//! measures the gate of `vmnoise serve` at a switch. Arguments select the rows whose names contain
//! them.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use vmnoise_testbed::bed::{CommandOutput, DebianKernel, DebianSuite, Lab};
use vmnoise_testbed::installed::{LOADER, with_libraries};
use vmnoise_testbed::lab_program;

/// How a tracer is started together with an exercise.
enum Tracer {
    None,
    /// The command runs in parallel with the exercises, and ends by itself after them.
    Beside(String),
    /// The command runs the exercise: the exercise's command is appended.
    Around(String),
}

struct Row {
    what: &'static str,
    tracer: Tracer,
    /// Whether the row is for `vmnoise`, which is also measured on newer kernels.
    is_ours: bool,
    /// Returns the files that the tracer needs in the lab.
    files: fn() -> Result<Vec<PathBuf>>,
}

/// Length of an exit of one kind in cycles. In the lab, a cycle is one instruction.
#[derive(Clone, Copy)]
struct Exit {
    median: f64,
    mean: f64,
}

/// Exercises. The numbers are the cycles of an exit in the thesis, without and with tracing (Table
/// 2).
const EXERCISES: [(&str, [f64; 2]); 2] = [("cpuid", [6280.0, 8483.0]), ("io", [19942.0, 22631.0])];
/// Name of the rows for the gate of `vmnoise serve`.
const GATE: &str = "vmnoise serve, a switch with a vCPU";
/// Name that the kernel gives a process that was started with [`LOADER`].
const LOADED: &str = "ld-linux-x86-64";
/// Command of `vmnoise serve`. The cost limit is high, because on an emulated CPU the cost exceeds
/// the default.
const SERVE: &str = "vmnoise-serve --cost-limit 100";
/// Command that waits until every tracer traces. The lab is idle during this time, so it takes
/// almost no real time.
const SET_UP: &str = "lab-tracefs for 20";

fn main() -> Result<()> {
    let chosen: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    let is_chosen = |row: &Row| {
        let named = chosen.iter().any(|word| row.what.contains(word));
        named || chosen.is_empty() || matches!(row.tracer, Tracer::None)
    };
    let is_of_exits = chosen.is_empty()
        || rows()
            .iter()
            .any(|row| chosen.iter().any(|word| row.what.contains(word.as_str())));
    let suites = [
        DebianSuite::Own,
        DebianSuite::Trixie,
        DebianSuite::TrixieBackports,
    ];
    for suite in suites.into_iter().filter(|_| is_of_exits) {
        let mut untraced = None;
        let is_in = |row: &&Row| is_chosen(row) && (suite == DebianSuite::Own || row.is_ours);
        for row in rows().iter().filter(is_in) {
            let (kernel, exits) = measured(row, suite).context(row.what)?;
            let untraced = *untraced.get_or_insert_with(|| {
                head(&kernel);
                exits
            });
            print(row.what, &exits, &untraced);
        }
    }
    if is_of_exits {
        print_thesis();
    }
    if chosen.is_empty() || chosen.iter().any(|word| GATE.contains(word.as_str())) {
        print_gate()?;
    }
    Ok(())
}

fn print_thesis() {
    let [cpuid, io] = EXERCISES.map(|(_, [before, after])| (after - before, after / before));
    println!(
        "{:<44} {:>8} {:>+7.0} {:>+6.1}% {:>16} {:>+7.0} {:>+6.1}%",
        "the thesis' tracepoint, in cycles (Table 2)",
        EXERCISES[0].1[1],
        cpuid.0,
        (cpuid.1 - 1.0) * 100.0,
        EXERCISES[1].1[1],
        io.0,
        (io.1 - 1.0) * 100.0
    );
}

/// Prints the cost of the gate of `vmnoise serve` at a switch to or from a vCPU.
fn print_gate() -> Result<()> {
    println!("{GATE}, in instructions");
    // Linux 7.3 is left out: since 6.19 task storage needs CMPXCHG16B, which a lab's CPU does not
    // have.
    for suite in [DebianSuite::Own, DebianSuite::Trixie] {
        let (kernel, empty) = at_switch(suite, LOADED, &bpftrace("empty.bt"), || {
            bpftrace_files("empty.bt")
        })?;
        let (_, gate) = at_switch(suite, "vmnoise-serve", SERVE, || {
            Ok(vec![lab_program("vmnoise-serve")?])
        })?;
        let beyond = gate - empty;
        println!("{kernel}: an empty program {empty:.0}, the gate {gate:.0}, {beyond:+.0}");
    }
    Ok(())
}

/// Returns the kernel's version, and the mean cost of a tracer's BPF program at a switch in
/// instructions. Nearly all switches are to or from a vCPU, because a task takes the vCPU's CPU
/// every 200 µs.
fn at_switch(
    suite: DebianSuite,
    name: &str,
    command: &str,
    files: impl Fn() -> Result<Vec<PathBuf>>,
) -> Result<(String, f64)> {
    let mut lab = Lab::kernel(DebianKernel::Cloud).from(suite).virtual_time(0);
    for program in ["lab-tracefs", "lab-scrape", "lab-disturb", "lab-switches"] {
        lab = lab.program(&lab_program(program)?);
    }
    for file in files()? {
        lab = lab.program(&file);
    }
    let report = lab.run(&[
        "lab-scrape up",
        &format!("& {command}"),
        SET_UP,
        "& vmnoise microvm --exercise cpuid -d 60s",
        "& lab-disturb turns 0 5 200 /tmp/turns",
        "lab-tracefs for 1",
        &format!("lab-switches {name} 1"),
    ])?;
    let counted = report.outputs.last().context("no output")?.json()?;
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or_default();
    let [switches, slices] = ["switches", "slices"].map(|key| number(&counted[key]));
    // For each time that the vCPU gets the CPU, there are two switches: to the vCPU and from it.
    ensure!(2.0 * slices > 0.9 * switches, "{counted}");
    let programs = counted["programs"].as_array().into_iter().flatten();
    // The busiest program is at switches, because no other hook runs as often.
    let busiest =
        programs.max_by(|one, other| number(&one["runs"]).total_cmp(&number(&other["runs"])));
    let busiest = busiest.context("no program ran")?;
    Ok((
        report.kernel_version,
        number(&busiest["ns"]) / number(&busiest["runs"]),
    ))
}

/// Returns the command that runs one of our bpftrace scripts in a lab.
fn bpftrace(script: &str) -> String {
    format!("{LOADER} /bin/bpftrace /bin/{script}")
}

fn bpftrace_files(script: &str) -> Result<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches");
    let mut files = with_libraries("bpftrace", "bpftrace")?;
    files.push(folder.join(script));
    Ok(files)
}

fn rows() -> Vec<Row> {
    let row = |what, tracer, is_ours| Row {
        what,
        tracer,
        is_ours,
        files: || Ok(Vec::new()),
    };
    let beside = |command: &str| Tracer::Beside(command.to_owned());
    let tracefs = |events: &[&str]| {
        let enable = events.iter().map(|it| format!("events/{it}/enable=1"));
        let enable = enable.collect::<Vec<_>>().join(" ");
        Tracer::Around(format!("lab-tracefs while {enable} -- "))
    };
    vec![
        row("nothing traced", Tracer::None, true),
        row(
            "vmnoise exits top",
            beside("vmnoise exits top -d 60s"),
            true,
        ),
        row(
            "vmnoise exits -o, a record of each exit",
            beside("vmnoise exits top -d 60s -o /tmp/exits"),
            true,
        ),
        row(
            "tracefs, kvm_exit and kvm_entry alone",
            tracefs(&["kvm/kvm_exit", "kvm/kvm_entry"]),
            false,
        ),
        row(
            "tracefs, all of kvm, sched, irq, irq_vectors",
            tracefs(&["kvm", "sched", "irq", "irq_vectors"]),
            false,
        ),
        Row {
            what: "perf kvm stat record",
            is_ours: false,
            tracer: Tracer::Around(format!(
                "{LOADER} /bin/perf kvm stat record --quiet --output /tmp/perf.data -- /bin/"
            )),
            files: || with_libraries("perf", "linux-perf"),
        },
        Row {
            what: "bpftrace, one histogram of lengths",
            is_ours: false,
            tracer: Tracer::Beside(bpftrace("exit_lengths.bt")),
            files: || bpftrace_files("exit_lengths.bt"),
        },
    ]
}

/// Returns the kernel's version, and the length of an exit for each exercise with this tracer.
fn measured(row: &Row, suite: DebianSuite) -> Result<(String, [Exit; 2])> {
    let exercise = |(name, _)| format!("vmnoise microvm --exercise {name} -d 20ms --format json");
    let exercises = EXERCISES.map(exercise);
    let mut commands = Vec::new();
    match &row.tracer {
        Tracer::None => commands.extend(exercises),
        Tracer::Around(prefix) => commands.extend(exercises.map(|it| format!("{prefix}{it}"))),
        Tracer::Beside(command) => {
            commands.extend([format!("&& {command}"), SET_UP.to_owned()]);
            commands.extend(exercises);
        }
    }
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let mut lab = Lab::kernel(DebianKernel::Cloud)
        .from(suite)
        .virtual_time(0)
        .program(&lab_program("lab-tracefs")?);
    for file in (row.files)()? {
        lab = lab.program(&file);
    }
    let report = lab.run(&commands)?;
    let exits = match &report.outputs[..] {
        [cpuid, io] => [cpuid, io],
        [_set_up, cpuid, io, tracer] => {
            tracer.text()?;
            [cpuid, io]
        }
        outputs => bail!("{} outputs", outputs.len()),
    };
    Ok((report.kernel_version, [exit(exits[0])?, exit(exits[1])?]))
}

fn exit(output: &CommandOutput) -> Result<Exit> {
    let document = output.json()?;
    let number = |key: &str| {
        let number = document["cpus"][0]["exit_tsc"][key].as_f64();
        number.with_context(|| format!("no exit: {document}"))
    };
    Ok(Exit {
        median: number("p50")?,
        mean: number("mean")?,
    })
}

fn head(kernel: &str) {
    println!("one exit on {kernel}, in instructions");
    println!(
        "{:<44} {:>8} {:>7} {:>7} {:>7} {:>8} {:>7} {:>7} {:>7}",
        "", "CPUID", "added", "", "mean", "IO", "added", "", "mean"
    );
}

fn print(what: &str, exits: &[Exit; 2], untraced: &[Exit; 2]) {
    print!("{what:<44}");
    for (exit, untraced) in exits.iter().zip(untraced) {
        print!(
            " {:>8.0} {:>+7.0} {:>+6.1}% {:>+7.0}",
            exit.median,
            exit.median - untraced.median,
            (exit.median / untraced.median - 1.0) * 100.0,
            exit.mean - untraced.mean
        );
    }
    println!();
}
