//! The first process of a lab. It mounts file systems, loads modules, runs the commands, writes the
//! result of each to the results port, and powers off. If another process is the first of the
//! machine, this process only runs the commands and powers off. It reports errors on the console.

mod started;
mod stuck;

use std::fs::File;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use self::started::AwaitedCommand;
use anyhow::{Context, Result};
use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, finit_module, reboot};
use vmnoise_testbed::bed::CommandOutput;
use vmnoise_testbed::bed::inside::{COMMANDS, MODULES, RESULTS, is_beside, runs_to_the_end, words};

/// File systems to mount: type and mount point.
const MOUNTS: [(&str, &str); 6] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("tmpfs", "/tmp"),
    ("tracefs", "/sys/kernel/tracing"),
    ("debugfs", "/sys/kernel/debug"),
];

pub fn main() -> Result<()> {
    let is_first = std::process::id() == 1;
    let set_up = if is_first { set_up() } else { Ok(()) };
    if let Err(error) = set_up.and_then(|()| run()) {
        eprintln!("lab-init: {error:#}");
        rustix::termios::tcdrain(std::io::stderr())?;
    }
    reboot(RebootCommand::PowerOff)?;
    Ok(())
}

fn set_up() -> Result<()> {
    for (kind, place) in MOUNTS {
        mount(kind, place, kind, MountFlags::empty(), None)
            .with_context(|| format!("mounting {kind} on {place}"))?;
    }
    for module in std::fs::read_to_string(MODULES)?.lines() {
        finit_module(File::open(module)?, c"", 0).with_context(|| format!("loading {module}"))?;
    }
    Ok(())
}

fn run() -> Result<()> {
    let mut to_the_end = Vec::new();
    let mut results = File::options().write(true).open(RESULTS)?;
    for command in std::fs::read_to_string(COMMANDS)?.lines() {
        let mut process = process(command)?;
        if is_beside(command) {
            process
                .stdout(Stdio::null())
                .spawn()
                .with_context(|| format!("starting `{command}`"))?;
            continue;
        }
        let started = AwaitedCommand::new(command, process)?;
        if runs_to_the_end(command) {
            to_the_end.push(started);
        } else {
            started.end(|output| report(&mut results, output))?;
        }
    }
    for started in to_the_end {
        started.end(|output| report(&mut results, output))?;
    }
    rustix::termios::tcdrain(&results)?;
    Ok(())
}

fn report(results: &mut File, output: Output) -> Result<()> {
    let output = CommandOutput {
        status: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    writeln!(results, "{}", serde_json::to_string(&output)?)?;
    Ok(())
}

/// Returns a process that will run this command. All programs are in `/bin`.
fn process(command: &str) -> Result<Command> {
    let mut words = words(command);
    let program = words.next().context("an empty command")?;
    let mut process = Command::new(format!("/bin/{program}"));
    process.args(words).stdin(Stdio::null());
    Ok(process)
}
