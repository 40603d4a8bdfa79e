//! `lab-tracefs while FILE=VALUE... -- COMMAND...` writes these values into files of tracefs in
//! order, traces until COMMAND ends, and keeps the trace. `lab-tracefs for SECONDS FILE=VALUE...`
//! traces for SECONDS without a command. `lab-tracefs show` prints the kept trace. At the start and
//! the end of a trace, the program writes the kernel's own counts of softirqs into the trace.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail};

const TRACEFS: &str = "/sys/kernel/tracing";
/// File in which the last trace is kept.
const KEPT: &str = "/tmp/trace";

pub fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["while", ref rest @ ..] => {
            let mut parts = rest.splitn(2, |word| *word == "--");
            let settings = parts.next().context("no settings")?;
            let command = parts.next().context("no command after --")?;
            trace(settings, || run(command))
        }
        ["for", seconds, ref settings @ ..] => {
            let duration = Duration::from_secs(seconds.parse()?);
            trace(settings, || {
                std::thread::sleep(duration);
                Ok(ExitCode::SUCCESS)
            })
        }
        ["show"] => {
            print!("{}", std::fs::read_to_string(KEPT)?);
            Ok(ExitCode::SUCCESS)
        }
        _ => bail!(
            "usage: lab-tracefs while FILE=VALUE... -- COMMAND... | for SECONDS FILE=VALUE... | show"
        ),
    }
}

fn trace(settings: &[&str], wait: impl FnOnce() -> Result<ExitCode>) -> Result<ExitCode> {
    for setting in settings {
        let (file, value) = setting.split_once('=').context("a setting is FILE=VALUE")?;
        write(file, value)?;
    }
    mark()?;
    let outcome = wait();
    mark()?;
    write("tracing_on", "0")?;
    std::fs::write(KEPT, std::fs::read(Path::new(TRACEFS).join("trace"))?)?;
    // A tracer with threads of its own would continue otherwise. This write also empties the trace.
    write("current_tracer", "nop")?;
    write("tracing_on", "1")?;
    outcome
}

fn run(command: &[&str]) -> Result<ExitCode> {
    let [program, arguments @ ..] = command else {
        bail!("an empty command");
    };
    let status = Command::new(format!("/bin/{program}"))
        .args(arguments)
        .status()
        .with_context(|| format!("starting {program}"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Writes the kernel's counts of softirqs into the trace, on one line: a marker can have only one
/// line.
fn mark() -> Result<()> {
    let counts = std::fs::read_to_string("/proc/softirqs")?;
    let words: Vec<&str> = counts.split_whitespace().collect();
    write("trace_marker", &words.join(" "))
}

fn write(file: &str, value: &str) -> Result<()> {
    std::fs::write(Path::new(TRACEFS).join(file), value)
        .with_context(|| format!("writing {value} to {file}"))
}
