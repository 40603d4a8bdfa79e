//! The virtual-machine test bed: boots a stock Debian kernel in QEMU's emulator with
//! nothing but `vmnoise` in it, runs commands there, and brings out what they said.

mod apt;
mod arguments;
mod initramfs;
pub mod inside;
mod kernel;
mod machine;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

pub use apt::Suite;
pub use inside::CommandOutput;
pub use kernel::Kernel;

/// How long a lab may take before it counts as hung; no estimate of how long it takes.
const BACKSTOP: Duration = Duration::from_secs(360);

/// A machine that is yet to be booted.
#[derive(Debug, Clone)]
pub struct Lab {
    kernel: Kernel,
    suite: Suite,
    cpus: u32,
    virtual_time: Option<u8>,
    programs: Vec<PathBuf>,
}

/// What a lab brought out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabReport {
    /// `uname -r` of the kernel that ran: it moves with the distribution.
    pub kernel_version: String,
    /// One for each command that was waited for, in their order.
    pub outputs: Vec<CommandOutput>,
    /// All that the kernel and the init said on the console.
    pub console: String,
}

impl Lab {
    /// A machine of one CPU with this kernel, `vmnoise`, and KVM.
    pub fn kernel(kernel: Kernel) -> Lab {
        Lab {
            kernel,
            suite: Suite::Own,
            cpus: 1,
            virtual_time: None,
            programs: vec![crate::binary()],
        }
    }

    /// Takes the kernel from this suite instead of the machine's own.
    pub fn from(mut self, suite: Suite) -> Lab {
        self.suite = suite;
        self
    }

    /// Gives it this many CPUs.
    pub fn cpus(mut self, cpus: u32) -> Lab {
        self.cpus = cpus;
        self
    }

    /// Lets time pass by instructions, 2^`shift` ns each: runs repeat exactly, and
    /// durations mean nothing outside. For one CPU only (QEMU before 10 hangs with two).
    pub fn virtual_time(mut self, shift: u8) -> Lab {
        self.virtual_time = Some(shift);
        self
    }

    /// Puts a static program into its `/bin`.
    pub fn program(mut self, path: &Path) -> Lab {
        self.programs.push(path.to_owned());
        self
    }

    /// Boots, runs the commands one after the other, and powers off. A command is words
    /// with single spaces between; one that starts with `& ` runs beside those after it
    /// and has no output.
    ///
    /// # Errors
    /// If the kernel cannot be had, or the machine does not come to its end: the message
    /// shows the end of its console.
    pub fn run(&self, commands: &[&str]) -> Result<LabReport> {
        ensure!(
            self.virtual_time.is_none() || self.cpus == 1,
            "virtual time is for one CPU: leave out .cpus({})",
            self.cpus
        );
        let image = kernel::install(self.kernel, self.suite)?;
        let folder = tempfile::tempdir().context("a folder for the lab")?;
        let initramfs = folder.path().join("initramfs");
        initramfs::write(&initramfs, &image.modules, &self.programs, commands)?;
        let console_file = folder.path().join("console");
        let results_file = folder.path().join("results");
        let requests_file = folder.path().join("requests");
        let requests = machine::requests(&requests_file)?;
        let arguments = [
            arguments::machine(self.cpus, self.virtual_time),
            arguments::kernel(&image.vmlinuz, &initramfs, self.virtual_time),
            arguments::ways_out(&console_file, &results_file, &requests_file),
        ];
        let ended = machine::run(&arguments.concat(), requests.into(), BACKSTOP);
        let read = |file: &Path| std::fs::read(file).unwrap_or_default();
        let console = String::from_utf8_lossy(&read(&console_file)).into_owned();
        let results = read(&results_file);
        let outputs = ended.and_then(|()| inside::outputs(&results));
        let waited_for = commands
            .iter()
            .filter(|command| !inside::is_beside(command));
        let outputs = outputs
            .and_then(|outputs| {
                let expected = waited_for.count();
                let found = outputs.len();
                ensure!(found == expected, "{found} of {expected} commands ended");
                Ok(outputs)
            })
            .with_context(|| format!("{}; its console ends: {}", image.version, tail(&console)))?;
        Ok(LabReport {
            kernel_version: image.version,
            outputs,
            console,
        })
    }
}

/// The last lines of a console, enough for a panic with its stack.
fn tail(console: &str) -> String {
    let lines: Vec<&str> = console.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}
