//! The virtual-machine test bed. It boots a stock Debian kernel with `vmnoise` and little else in
//! QEMU's emulator, runs commands there, and returns their output.

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

/// Maximum time of a lab before it counts as hung. Labs usually take much less.
const BACKSTOP: Duration = Duration::from_secs(240);
/// Maximum time of a lab with a guest before it counts as hung.
const BACKSTOP_WITH_GUEST: Duration = Duration::from_secs(480);

/// Default seed of the random numbers of a machine with virtual time.
const SEED: u64 = 1;

/// Start of the line that reports a second boot of a machine. `xtask test` counts these lines.
const BOOTED_AGAIN: &str = "lab booted once more";

/// A machine that is ready to boot.
#[derive(Debug, Clone)]
pub struct Lab {
    kernel: DebianKernel,
    suite: DebianSuite,
    cpus: u32,
    virtual_time: Option<u8>,
    seed: u64,
    asked_to_end: Arc<AtomicBool>,
    programs: Vec<PathBuf>,
    /// Programs that only the host carries, not its guest.
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
    /// Creates a machine with one CPU, this kernel, `vmnoise`, and KVM.
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

    /// Takes the kernel from this suite instead of the suite of the machine that runs the lab.
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
    /// but their durations differ from real time. QEMU emulates several CPUs one after the other:
    /// while one CPU runs, the others stand still. QEMU before 10 hangs with two CPUs.
    pub fn virtual_time(mut self, shift: u8) -> Lab {
        self.virtual_time = Some(shift);
        self
    }

    /// Sets the seed of the machine's random numbers; only used with virtual time.
    pub fn seed(mut self, seed: u64) -> Lab {
        self.seed = seed;
        self
    }

    /// Ends the machine early when `asked_to_end` becomes true. `run` then returns an error.
    pub fn until(mut self, asked_to_end: &Arc<AtomicBool>) -> Lab {
        self.asked_to_end = Arc::clone(asked_to_end);
        self
    }

    /// Puts a static program into `/bin` of the machine and of its guest.
    pub fn program(mut self, path: &Path) -> Lab {
        self.programs.push(path.to_owned());
        self
    }

    /// Puts a static program into `/bin` of the machine, but not of its guest, where the program
    /// would use memory.
    pub fn program_of_host(mut self, path: &Path) -> Lab {
        self.programs_of_host.push(path.to_owned());
        self
    }

    /// Puts a Debian program with its libraries into `/bin` of the machine and of its guest.
    pub fn packaged(mut self, packaged: DebianProgram) -> Lab {
        self.packaged.push(packaged);
        self
    }

    /// Adds QEMU and a Linux guest. The guest has the same programs, and runs these commands in the
    /// same way as a lab. The guest has the same kernel, unless `guest_kernel` sets another kernel.
    /// The program `lab-guest` boots the guest.
    pub fn guest(mut self, commands: &[&str]) -> Lab {
        self.guest = Some(commands.iter().map(|&command| command.to_owned()).collect());
        self
    }

    /// Uses another kernel of the same suite for the guest.
    pub fn guest_kernel(mut self, kernel: DebianKernel) -> Lab {
        self.guest_kernel = kernel;
        self
    }

    /// Adds QEMU and the guest's kernel. A program in the machine can then boot guests with
    /// [`KvmGuest`], as on any other machine.
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

    /// Lets the machine's kernel serve `vhost-vsock-pci` devices of its guests.
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

    /// Sets the words that are appended to the command line of the machine's kernel.
    pub fn command_line(mut self, words: &str) -> Lab {
        self.command_line = words.to_owned();
        self
    }

    /// Sets the maximum time of the machine before it counts as hung.
    pub fn patience(mut self, backstop: Duration) -> Lab {
        self.backstop = backstop;
        self
    }

    /// Boots the machine, runs the commands one after the other, and powers off. A command consists
    /// of words with single spaces between them. A command that starts with `& ` runs in parallel
    /// with the commands after it, and its output is dropped. If a fault of the emulator stops the
    /// machine, prints a line and boots the machine once more.
    ///
    /// # Errors
    /// If the kernel cannot be fetched, or the machine does not power off. The error contains the
    /// number of commands that ended, the states of the machine's CPUs, and the end of its console.
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
    /// Returns the size of the machine's memory. The kernel has the initramfs in memory twice while
    /// it unpacks the initramfs.
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

    /// Returns the files that the machine carries in addition to its static programs.
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

/// Returns whether only the emulator can have caused this error. A panic of the machine's kernel
/// does not count, because our own programs may have caused it.
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
