//! `cargo bench -p vmnoise-testbed --bench frame_cost`: CPU time of the thread that drains events
//! and draws the output, with four periods per second. It compares three outputs in alternating
//! runs: the frame, the redrawn table, and none.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use vmnoise_testbed::{binary, schedstat};

const ROUNDS: usize = 5;
/// Time after which the first output is completely drawn.
const SETTLED: Duration = Duration::from_secs(3);
const MEASURED: Duration = Duration::from_secs(8);
/// Outputs to compare: name, value of `TERM`, additional option, and text that must be drawn.
const VIEWS: [(&str, &str, &str, &str); 3] = [
    ("frame", "xterm-256color", "", "The longest gaps "),
    ("table redrawn", "dumb", "", "Operating System Noise"),
    ("quiet", "xterm-256color", "-q", ""),
];

fn main() -> Result<()> {
    println!("ms of a CPU in each second, 4 periods a second, 80x24");
    let mut costs: [Vec<f64>; 3] = Default::default();
    for _ in 0..ROUNDS {
        for ((name, term, option, drawn), costs) in VIEWS.into_iter().zip(&mut costs) {
            let cost = cost(term, option, drawn)?;
            println!("{name:<14} {cost:>8.3}");
            costs.push(cost);
        }
    }
    for ((name, ..), mut costs) in VIEWS.into_iter().zip(costs) {
        costs.sort_by(f64::total_cmp);
        println!("{name:<14} {:>8.3} (median)", costs[costs.len() / 2]);
    }
    Ok(())
}

/// Measures one run in a terminal of its own. Returns its cost in ms of CPU time per second.
fn cost(term: &str, option: &str, drawn: &str) -> Result<f64> {
    let screen = tempfile::NamedTempFile::new()?;
    let command = format!(
        "stty cols 80 rows 24; exec {} osnoise top -c 1 -p 250ms -d 20s {option}",
        binary().display()
    );
    let mut script = Command::new("script")
        .args(["-qfec", &command])
        .arg(screen.path())
        .env("TERM", term)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .context("starting `script` of util-linux")?;
    let cost = watch(script.id());
    script.kill()?;
    script.wait()?;
    let shown = String::from_utf8_lossy(&std::fs::read(screen.path())?).into_owned();
    ensure!(
        shown.contains(drawn),
        "`{drawn}` was never drawn: {shown:?}"
    );
    cost
}

fn watch(script: u32) -> Result<f64> {
    std::thread::sleep(SETTLED);
    let path = format!("/proc/{script}/task/{script}/children");
    let children = std::fs::read_to_string(&path).context(path)?;
    let pid: u32 = children.trim().parse().context("the run has ended")?;
    let on_cpu_ns = || Ok::<_, anyhow::Error>(schedstat::read(pid, pid)?.on_cpu_ns);
    let (begin, before_ns) = (Instant::now(), on_cpu_ns()?);
    std::thread::sleep(MEASURED);
    let took_ns = (on_cpu_ns()? - before_ns) as f64;
    Ok(took_ns / begin.elapsed().as_secs_f64() / 1e6)
}
