//! The virtual-machine test bed: boots a stock Debian kernel with nothing but `vmnoise` in QEMU's
//! emulator, runs commands there, and returns their output.

mod apt;
mod arguments;
mod boot;
mod bzimage;
mod carried;
mod compressed;
mod debian;
mod guest;
pub mod guest_disk;
mod guest_files;
mod guest_image;
mod initramfs;
pub mod inside;
mod kernel;
mod kvm_guest;
mod machine;
mod mended;
mod needs;
mod packaged;
mod qemu;
mod types;
mod xen;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use boot::Boot;
use carried::Carried;
use guest_image::GuestImage;
use initramfs::Contents;
use kernel::Image;
use machine::{Patience, StaleBreakpoint};
use qemu::Qemu;

pub use apt::DebianSuite;
pub use arguments::guest as guest_arguments;
pub use boot::LabReport;
pub use debian::Debian;
pub use guest_files::GuestFiles;
pub use inside::CommandOutput;
pub use kernel::DebianKernel;
pub use kvm_guest::KvmGuest;
pub use needs::{BedPart, ToFetch, free_bytes, reach, to_fetch};
pub use packaged::DebianProgram;
pub use types::{ModuleTypes, types_of_module};
pub use xen::{XenDomain, XenGuest, XenLab, XenReport, XenType, xl};

/// How long a lab may take before it counts as hung; not an estimate of its usual time.
const BACKSTOP: Duration = Duration::from_secs(240);
/// As `BACKSTOP`, for a lab that boots a guest.
const BACKSTOP_WITH_GUEST: Duration = Duration::from_secs(480);

/// Default seed for random numbers in virtual time.
const SEED: u64 = 1;

/// Start of the line that reports that a machine was booted again; `xtask test` counts these lines.
const BOOTED_AGAIN: &str = "lab booted once more";

/// A machine that is yet to be booted.
#[derive(Debug, Clone)]
pub struct Lab {
    kernel: DebianKernel,
    suite: DebianSuite,
    cpus: u32,
    virtual_time: Option<u8>,
    seed: u64,
    asked_to_end: Arc<AtomicBool>,
    programs: Vec<PathBuf>,
    /// Programs for the host only, not for its guest.
    programs_of_host: Vec<PathBuf>,
    packaged: Vec<DebianProgram>,
    guest: Option<Vec<String>>,
    guest_kernel: DebianKernel,
    boots_guests: bool,
    has_kvm: bool,
    has_network: bool,
    has_vhost: bool,
    has_shell: bool,
    has_compiler: bool,
    command_line: String,
    backstop: Duration,
}

impl Lab {
    /// Creates a machine of one CPU with this kernel, `vmnoise`, and KVM.
    pub fn kernel(kernel: DebianKernel) -> Lab {
        Lab {
            kernel,
            suite: DebianSuite::Own,
            cpus: 1,
            virtual_time: None,
            seed: SEED,
            asked_to_end: Arc::default(),
            programs: vec![crate::binary()],
            programs_of_host: Vec::new(),
            packaged: Vec::new(),
            guest: None,
            guest_kernel: kernel,
            boots_guests: false,
            has_kvm: true,
            has_network: false,
            has_vhost: false,
            has_shell: false,
            has_compiler: false,
            command_line: String::new(),
            backstop: BACKSTOP,
        }
    }

    /// Takes the kernel from this suite instead of the machine's own.
    pub fn from(mut self, suite: DebianSuite) -> Lab {
        self.suite = suite;
        self
    }

    /// Gives the machine this many CPUs.
    pub fn cpus(mut self, cpus: u32) -> Lab {
        self.cpus = cpus;
        self
    }

    /// Makes each instruction take 2^`shift` ns of the machine's clock. Runs then repeat exactly,
    /// but their durations say nothing about real time. Several CPUs take turns: while one runs,
    /// the others stand still (QEMU before 10 hangs with two).
    pub fn virtual_time(mut self, shift: u8) -> Lab {
        self.virtual_time = Some(shift);
        self
    }

    /// Sets the seed of random numbers in virtual time.
    pub fn seed(mut self, seed: u64) -> Lab {
        self.seed = seed;
        self
    }

    /// Ends the machine early, with an error from `run`, once this is true.
    pub fn until(mut self, asked_to_end: &Arc<AtomicBool>) -> Lab {
        self.asked_to_end = Arc::clone(asked_to_end);
        self
    }

    /// Puts a static program into its `/bin`.
    pub fn program(mut self, path: &Path) -> Lab {
        self.programs.push(path.to_owned());
        self
    }

    /// Puts a static program into its `/bin` only, because it would take memory of the guest.
    pub fn program_of_host(mut self, path: &Path) -> Lab {
        self.programs_of_host.push(path.to_owned());
        self
    }

    /// Puts a program of Debian with its libraries into its `/bin` and that of its guest.
    pub fn packaged(mut self, packaged: DebianProgram) -> Lab {
        self.packaged.push(packaged);
        self
    }

    /// Adds QEMU and a Linux guest that has the same programs and runs these commands as a lab
    /// does. The guest has the same kernel, unless `guest_kernel` sets another. The program
    /// `lab-guest` boots it.
    pub fn guest(mut self, commands: &[&str]) -> Lab {
        self.guest = Some(commands.iter().map(|&command| command.to_owned()).collect());
        self
    }

    /// Gives the guest another kernel of the same suite.
    pub fn guest_kernel(mut self, kernel: DebianKernel) -> Lab {
        self.guest_kernel = kernel;
        self
    }

    /// Adds QEMU and the guest's kernel, so that a program in the machine can boot guests as on any
    /// other machine ([`KvmGuest`]).
    pub fn boots_guests(mut self) -> Lab {
        self.boots_guests = true;
        self
    }

    /// Leaves KVM out, so the machine has no /dev/kvm.
    pub fn without_kvm(mut self) -> Lab {
        self.has_kvm = false;
        self
    }

    /// Adds two network cards on one wire, for `lab-network storm`.
    pub fn network(mut self) -> Lab {
        self.has_network = true;
        self
    }

    /// Lets its kernel serve `vhost-vsock-pci` devices of its guests.
    pub fn vhost(mut self) -> Lab {
        self.has_vhost = true;
        self
    }

    /// Adds this machine's `/bin/sh`.
    pub fn shell(mut self) -> Lab {
        self.has_shell = true;
        self
    }

    /// Adds this machine's `cc`, which can compile but not link.
    pub fn compiler(mut self) -> Lab {
        self.has_compiler = true;
        self
    }

    /// Appends words to the command line of its kernel.
    pub fn command_line(mut self, words: &str) -> Lab {
        self.command_line = words.to_owned();
        self
    }

    /// Sets how long it may take before it counts as hung.
    pub fn patience(mut self, backstop: Duration) -> Lab {
        self.backstop = backstop;
        self
    }

    /// Boots the machine, runs the commands one after the other, and powers off. A command is words
    /// with single spaces between. A command that starts with `& ` runs in parallel to those after
    /// it, and its output is dropped.
    ///
    /// # Errors
    /// If the kernel cannot be had, or the machine does not power off. The message shows how far
    /// the machine came, the state of its CPUs, and the end of its console. If the emulator's own
    /// fault stopped it, the machine is booted once more, and a line reports that.
    pub fn run(&self, commands: &[&str]) -> Result<LabReport> {
        let image = kernel::install(self.kernel, self.suite)?;
        match self.boot(&image, commands) {
            Err(error) if is_emulators_fault(&error) => {
                println!("{BOOTED_AGAIN}: {error:#}");
                self.boot(&image, commands)
            }
            done => done,
        }
    }

    fn boot(&self, image: &Image, commands: &[&str]) -> Result<LabReport> {
        let folder = tempfile::tempdir().context("a folder for the lab")?;
        let initramfs = folder.path().join("initramfs");
        let qemu = Qemu::chosen()?;
        if self.virtual_time.is_some() && self.cpus > 1 {
            qemu.ensure_takes_turns()?;
        }
        let carried = self.carried(qemu, folder.path())?;
        let mut modules = match self.has_kvm {
            true => image.modules()?,
            false => Vec::new(),
        };
        if self.has_network {
            modules.extend(image.modules_of_network());
        }
        if self.has_vhost {
            modules.extend(image.modules_of_vhost()?);
        }
        let contents = Contents {
            modules: &modules,
            programs: &[&self.programs[..], &self.programs_of_host].concat(),
            carried: &carried,
            commands,
            results: inside::SERIAL_PORT,
        };
        initramfs::write(&initramfs, &contents)?;
        let network = self.has_network.then(arguments::network);
        let arguments = [
            arguments::machine(self.cpus, self.memory_mib(), arguments::CPU),
            network.unwrap_or_default(),
            arguments::time(self.virtual_time, self.seed),
            arguments::kernel(
                &image.vmlinux()?,
                &initramfs,
                self.virtual_time,
                &self.command_line,
            ),
        ];
        let boot = Boot {
            qemu,
            arguments: arguments.concat(),
            commands,
            kernel_version: &image.version,
            patience: Patience {
                backstop: self.backstop(),
                asked_to_end: Arc::clone(&self.asked_to_end),
            },
        };
        boot.run(folder.path())
    }
}

impl Lab {
    /// Returns the machine's memory. The initramfs is in memory twice while the kernel unpacks it.
    fn memory_mib(&self) -> u32 {
        if self.has_guest() { 1536 } else { 1024 }
    }

    fn backstop(&self) -> Duration {
        if self.has_guest() {
            self.backstop.max(BACKSTOP_WITH_GUEST)
        } else {
            self.backstop
        }
    }

    fn has_guest(&self) -> bool {
        self.guest.is_some() || self.boots_guests
    }

    /// Returns the files that the machine carries besides its programs.
    fn carried(&self, qemu: &Qemu, folder: &Path) -> Result<Vec<Carried>> {
        let packaged = packaged::files(&self.packaged)?;
        let mut files = packaged.clone();
        if self.has_shell {
            files.extend(carried::shell()?);
        }
        if self.has_compiler {
            files.extend(carried::compiler()?);
        }
        if self.has_guest() {
            files.extend(guest::vmm(qemu)?);
        }
        let kernel = (self.guest_kernel, self.suite);
        if self.boots_guests {
            files.extend(guest::kernel(&kernel::install(kernel.0, kernel.1)?)?);
        }
        if let Some(commands) = &self.guest {
            let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
            let image = GuestImage::write(folder, kernel, &self.programs, &packaged, &commands)?;
            files.extend(guest::image(&image));
        }
        Ok(files)
    }
}

/// Returns whether only the emulator can be at fault. A panic of the machine's kernel may be our
/// fault.
fn is_emulators_fault(error: &anyhow::Error) -> bool {
    error.is::<StaleBreakpoint>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::KernelPanic;

    #[test]
    fn a_panic_of_the_kernel_is_not_forgiven() {
        let panic = KernelPanic {
            why: "corrupted stack end detected inside scheduler".into(),
            ends: String::new(),
        };
        assert!(!is_emulators_fault(&panic.into()));
        assert!(is_emulators_fault(&StaleBreakpoint { found: 2 }.into()));
    }
}
