//! `cargo bench -p vmnoise-testbed --bench run_overhead`: cost of `vmnoise run` for the command
//! that it runs.
//!
//! The first part compares CPU time with and without `vmnoise run` in pairs: of a compilation, of a
//! memory copy, and of `perf bench sched pipe`, which mostly switches tasks. The second part
//! repeats the compilation and the copy in a lab under virtual time, where an instruction takes 1
//! ns. It counts all instructions of the lab's only CPU from the start to the end of the work. With
//! the argument `lab`, only the second part runs.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use vmnoise_testbed::bed::{CommandOutput, DebianKernel, Lab};

const PAIRS: usize = 15;
/// Limit of the additional instructions, in percent.
const MOST_PERCENT: f64 = 0.5;
/// Maximum time of the lab before it counts as hung. An emulated machine takes half a minute for
/// one run.
const PATIENCE: Duration = Duration::from_secs(1_200);

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    // This program itself does the work and measures it, so the figures do not include the time to
    // load a program.
    match words.next().as_deref() {
        Some("compile") => return timed(compile),
        Some("copy") => return timed(copy),
        Some("pipe") => return timed(pipe),
        Some("lab") => return in_lab(),
        _ => {}
    }
    here()?;
    in_lab()
}

/// Measures the cost on this machine.
fn here() -> Result<()> {
    println!(
        "{:>8} {:>14} {:>14} {:>10} {:>22}",
        "", "alone ms", "with ms", "added %", "pairs: lower..upper %"
    );
    for work in ["compile", "copy", "pipe"] {
        if work == "pipe" && Command::new("perf").arg("--version").output().is_err() {
            println!("    pipe skipped: there is no perf here");
            continue;
        }
        compare(work)?;
    }
    Ok(())
}

/// Measures the cost in a lab under virtual time. Nothing else runs on the lab's only CPU.
fn in_lab() -> Result<()> {
    let own = std::env::current_exe()?;
    let name = own.file_name().context("no name")?.to_string_lossy();
    println!(
        "{:>8} {:>14} {:>14} {:>14} {:>10}",
        "lab", "alone ms", "with ms", "alone again ms", "added %"
    );
    let works = ["compile", "copy"];
    let commands = works.map(|work| {
        let alone = format!("{name} {work}");
        let with = format!("vmnoise run -o /tmp/{work}.txt -- /bin/{alone}");
        [alone.clone(), with, alone]
    });
    let commands: Vec<&str> = commands.as_flattened().iter().map(|it| &**it).collect();
    let lab = Lab::kernel(DebianKernel::Cloud).virtual_time(0).compiler();
    let report = lab.patience(PATIENCE).program(&own).run(&commands)?;
    let took = report.outputs.iter().map(elapsed_ms);
    let took = took.collect::<Result<Vec<f64>>>()?;
    for (work, took) in works.iter().zip(took.chunks(3)) {
        let &[alone, with, again] = took else {
            bail!("three times each");
        };
        // If the two runs without `vmnoise` differ, the result is the larger cost.
        let added = (with / alone.min(again) - 1.0) * 100.0;
        println!("{work:>8} {alone:>14.3} {with:>14.3} {again:>14.3} {added:>10.3}");
        ensure!(
            added < MOST_PERCENT,
            "vmnoise run adds {added:.3} % to a {work}"
        );
    }
    Ok(())
}

fn elapsed_ms(output: &CommandOutput) -> Result<f64> {
    let text = output.text()?;
    let ns = text.split_whitespace().nth(1).context("no time")?;
    Ok(ns.parse::<f64>()? / 1e6)
}

/// Measures pairs with and without `vmnoise run`. Their order alternates, so that changes on this
/// machine affect both sides.
fn compare(work: &str) -> Result<()> {
    let mut alone_us = Vec::new();
    let mut with_us = Vec::new();
    let mut added = Vec::new();
    for pair in 0..=PAIRS {
        let (alone, with) = match pair % 2 {
            0 => {
                let alone = once(work, false)?;
                (alone, once(work, true)?)
            }
            _ => {
                let with = once(work, true)?;
                (once(work, false)?, with)
            }
        };
        // The first pair only fills the caches, and does not count.
        if pair > 0 {
            alone_us.push(alone);
            with_us.push(with);
            added.push((with / alone - 1.0) * 100.0);
        }
    }
    added.sort_by(f64::total_cmp);
    // The median of 15 lies between the 4th and the 12th value in 96 of 100 cases (binomial).
    println!(
        "{work:>8} {:>14.1} {:>14.1} {:>10.3} {:>11.3}..{:.3}",
        median(&mut alone_us) / 1e3,
        median(&mut with_us) / 1e3,
        added[PAIRS / 2],
        added[3],
        added[11]
    );
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the CPU time of the work with or without `vmnoise run`, in µs.
fn once(work: &str, with: bool) -> Result<f64> {
    let own = std::env::current_exe()?;
    let mut command = match with {
        true => {
            let mut command = Command::new(vmnoise_testbed::binary());
            command.args(["run", "-o", "/dev/null", "--"]).arg(own);
            command
        }
        false => Command::new(own),
    };
    let output = command.arg(work).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{work} failed");
    let text = String::from_utf8(output.stdout)?;
    let used_us = text.split_whitespace().next().unwrap_or_default();
    used_us
        .parse()
        .with_context(|| format!("{work} printed {text:?}"))
}

/// Does the work. Prints the CPU time of this process and its children in µs, and the elapsed time
/// of the work in ns.
fn timed(work: fn() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    work()?;
    let took_ns = start.elapsed().as_nanos();
    let used = |who| -> Result<i64> {
        let usage = getrusage(who)?;
        Ok((usage.user_time() + usage.system_time()).num_microseconds())
    };
    let used_us = used(UsageWho::RUSAGE_SELF)? + used(UsageWho::RUSAGE_CHILDREN)?;
    println!("{used_us} {took_ns}");
    Ok(())
}

/// Compiles six C files, two at the same time. Each compiler starts several programs.
fn compile() -> Result<()> {
    let mut code = String::new();
    for function in 0..150 {
        code += &format!(
            "int f{function}(int *a, int n) {{ int s = 0; for (int i = 0; i < n; i++) s += a[i] * {function}; return s; }}\n"
        );
    }
    let folder = std::env::temp_dir().join(format!("vmnoise-compile-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("a.c");
    std::fs::write(&file, code)?;
    // A lab has no PATH, but cc needs one to find its own programs.
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{path}:/usr/bin:/bin");
    let one = |number: usize| {
        let object = folder.join(format!("{number}.o"));
        Command::new("cc")
            .env("PATH", path.trim_start_matches(':'))
            .args(["-O2", "-c"])
            .arg(&file)
            .arg("-o")
            .arg(object)
            .spawn()
    };
    for number in (0..6).step_by(2) {
        for mut compiler in [one(number)?, one(number + 1)?] {
            if !compiler.wait()?.success() {
                bail!("cc failed: install gcc");
            }
        }
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// Copies 64 MiB many times.
fn copy() -> Result<()> {
    let from = vec![1_u8; 64 << 20];
    let mut to = vec![0_u8; 64 << 20];
    for _ in 0..30 {
        to.copy_from_slice(&from);
        std::hint::black_box(&mut to);
    }
    Ok(())
}

fn pipe() -> Result<()> {
    let mut perf = Command::new("perf");
    perf.args(["bench", "-f", "simple", "sched", "pipe", "-l", "100000"]);
    let output = perf.output().context("perf")?;
    ensure!(output.status.success(), "perf bench failed");
    Ok(())
}
