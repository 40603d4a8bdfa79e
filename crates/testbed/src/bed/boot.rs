//! Boots a machine, waits until it ends, and collects its output.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::arguments;
use super::inside::{self, CommandOutput};
use super::machine::{self, Monitor, Patience, Written};
use super::qemu::Qemu;

/// Output of a lab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabReport {
    /// `uname -r` of the machine's kernel. It changes with the distribution's updates.
    pub kernel_version: String,
    /// One output for each command that the lab waited for, in order.
    pub outputs: Vec<CommandOutput>,
    /// Everything that the kernel and the init process wrote to the console.
    pub console: String,
}

/// A machine that is ready to boot.
#[derive(Debug)]
pub(super) struct Boot<'a> {
    pub qemu: &'a Qemu,
    pub arguments: Vec<String>,
    /// Commands that the machine's init process runs.
    pub commands: &'a [&'a str],
    pub kernel_version: &'a str,
    pub patience: Patience,
}

impl Boot<'_> {
    /// Boots the machine, and keeps the machine's output files in `folder`.
    pub(super) fn run(self, folder: &Path) -> Result<LabReport> {
        let console_file = folder.join("console");
        let results_file = folder.join("results");
        let (requests, answers) = (folder.join("requests"), folder.join("answers"));
        let monitor = Monitor::new(&requests, &answers)?;
        let mut arguments = self.arguments;
        arguments.extend(arguments::ways_out(&console_file, &results_file, &requests));
        let ended = machine::run(
            self.qemu,
            &arguments,
            &monitor,
            Written {
                results: &results_file,
                console: &console_file,
            },
            &self.patience,
        );
        let read = |file: &Path| std::fs::read(file).unwrap_or_default();
        let console = String::from_utf8_lossy(&read(&console_file)).into_owned();
        let results = read(&results_file);
        let outputs = ended
            .and_then(|()| inside::outputs(&results))
            .and_then(|outputs| {
                let expected = inside::in_order_of_results(self.commands).len();
                ensure!(outputs.len() == expected, "it powered off early");
                Ok(outputs)
            })
            .with_context(|| {
                let progress = inside::progress(&results, self.commands);
                let version = self.kernel_version;
                let console = tail(&console);
                format!("{version}: {progress}; its console ends: {console}")
            })?;
        Ok(LabReport {
            kernel_version: self.kernel_version.to_owned(),
            outputs,
            console,
        })
    }
}

/// Returns the last lines of a console. They suffice for a panic with its stack, or for the stacks
/// of several threads.
fn tail(console: &str) -> String {
    let lines: Vec<&str> = console.lines().collect();
    lines[lines.len().saturating_sub(150)..].join("\n")
}
