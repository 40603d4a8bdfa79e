//! Xen in a lab: Debian's hypervisor, a Dom0 that is a lab of its own, and a guest that runs
//! commands as a lab does. All share one CPU under virtual time, so Dom0 takes exactly its own
//! running time from the guest, and none while it sleeps. Guests of a Xen that runs on this machine
//! itself are here too.

mod device_model;
mod domain;
mod guest;
mod image;
mod packages;
pub mod xl;

pub(super) use device_model::PACKAGE as DEVICE_MODEL;
pub use domain::{XenDomain, XenType};
pub use guest::XenGuest;
pub(super) use packages::META;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::apt::{Apt, Bundle};
use super::boot::{Boot, LabReport};
use super::carried::Carried;
use super::initramfs::{self, Contents};
use super::inside::{self, CommandOutput, GUEST_INITRAMFS, GUEST_KERNEL, XEN_DOMAIN};
use super::kernel::{self, DebianKernel};
use super::machine::Patience;
use super::packaged::{self, DebianProgram};
use super::qemu::Qemu;
use super::{DebianSuite, SEED, arguments, guest as guest_of_lab};
use image::XenImage;

/// How long a lab of Xen may take before it counts as hung; not an estimate of its usual time.
const BACKSTOP: Duration = Duration::from_secs(600);
/// Memory of the machine; Dom0 has 1 GiB of it.
const MEMORY_MIB: u32 = 2048;

/// Returns the packages that Xen needs, with a QEMU in Dom0 or without.
pub(super) fn bundles(has_device_model: bool) -> Result<Vec<Bundle>> {
    let xen = packages::bundle(&Apt::of(DebianSuite::Own)?)?;
    let device_model = has_device_model.then(|| device_model::bundle(&xen.folder));
    let device_model = device_model.transpose()?;
    Ok([xen].into_iter().chain(device_model).collect())
}

impl XenType {
    /// Returns the QEMU that emulates the machine for this type.
    fn qemu(self) -> Result<&'static Qemu> {
        match self {
            XenType::Pv => Qemu::chosen(),
            XenType::Pvh | XenType::Hvm => Qemu::with_reads_of_cr2(),
        }
    }

    /// Returns the virtual time of one instruction, as a power of two of ns. It is shortest for an
    /// HVM guest: its firmware would take minutes otherwise, and the commands that wait for the
    /// guest would give up.
    fn shift(self) -> u8 {
        match self {
            XenType::Pv | XenType::Pvh => 2,
            XenType::Hvm => 0,
        }
    }
}

/// A machine with Xen that is yet to be booted.
#[derive(Debug, Clone)]
pub struct XenLab {
    domain: XenDomain,
    dom0_kernel: DebianKernel,
    guest_kernel: DebianKernel,
    shift: u8,
    seed: u64,
    asked_to_end: Arc<AtomicBool>,
    scheduler: Option<&'static str>,
    programs: Vec<PathBuf>,
    packaged: Vec<DebianProgram>,
}

/// Output of a lab of Xen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XenReport {
    /// Outputs of the guest, one per command that was waited for, in order.
    pub guest: Vec<CommandOutput>,
    /// Everything that the guest wrote to its console.
    pub guest_console: String,
    /// Output of Dom0, without the commands that start the guest and collect its results.
    pub dom0: LabReport,
}

impl XenLab {
    /// Creates a lab with a PV guest: one vCPU, `vmnoise` and the cloud kernel. A PV guest knows
    /// that it has no hardware.
    pub fn pv() -> XenLab {
        XenLab::of(XenType::Pv)
    }

    /// Creates a lab with a PVH guest: as `pv`, but in SVM. The guest has its own page tables, and
    /// no hardware but its CPU.
    pub fn pvh() -> XenLab {
        XenLab::of(XenType::Pvh)
    }

    /// Creates a lab with an HVM guest: as `pvh`, but with a whole machine around the guest, which
    /// a QEMU in Dom0 emulates.
    pub fn hvm() -> XenLab {
        XenLab::of(XenType::Hvm)
    }

    fn of(kind: XenType) -> XenLab {
        XenLab {
            domain: XenDomain::of(kind),
            dom0_kernel: DebianKernel::Plain,
            guest_kernel: DebianKernel::Cloud,
            shift: kind.shift(),
            seed: SEED,
            asked_to_end: Arc::default(),
            scheduler: None,
            programs: vec![crate::binary()],
            packaged: Vec::new(),
        }
    }

    /// Gives Dom0 another kernel than the plain one. The cloud kernel cannot be a Dom0.
    pub fn dom0_kernel(mut self, kernel: DebianKernel) -> XenLab {
        self.dom0_kernel = kernel;
        self
    }

    /// Gives the guest another kernel than the cloud one.
    pub fn guest_kernel(mut self, kernel: DebianKernel) -> XenLab {
        self.guest_kernel = kernel;
        self
    }

    /// Sets the virtual time of one instruction to 2^`shift` ns, instead of the default of its
    /// type.
    pub fn virtual_time(mut self, shift: u8) -> XenLab {
        self.shift = shift;
        self
    }

    /// Sets the seed of random numbers.
    pub fn seed(mut self, seed: u64) -> XenLab {
        self.seed = seed;
        self
    }

    /// Ends the machine early, with an error from `run`, once this is true.
    pub fn until(mut self, asked_to_end: &Arc<AtomicBool>) -> XenLab {
        self.asked_to_end = Arc::clone(asked_to_end);
        self
    }

    /// Sets Xen's scheduler, instead of Xen's default.
    pub fn scheduler(mut self, name: &'static str) -> XenLab {
        self.scheduler = Some(name);
        self
    }

    /// Appends words to the command line of the guest's kernel.
    pub fn command_line(mut self, words: &str) -> XenLab {
        self.domain.command_line = words.to_owned();
        self
    }

    /// Makes Xen emulate each of the guest's reads of the TSC.
    pub fn emulate_tsc(mut self) -> XenLab {
        self.domain.emulates_tsc = true;
        self
    }

    /// Puts a static program into `/bin` of Dom0 and of the guest.
    pub fn program(mut self, path: &Path) -> XenLab {
        self.programs.push(path.to_owned());
        self
    }

    /// Puts a program of Debian into `/bin` of Dom0 and of the guest, with its libraries.
    pub fn packaged(mut self, packaged: DebianProgram) -> XenLab {
        self.packaged.push(packaged);
        self
    }

    /// Boots the machine, starts the guest with its commands, runs Dom0's commands meanwhile, and
    /// powers off when both are done. The commands are written as for [`super::Lab::run`].
    /// `lab-xen told COUNT` in Dom0 sleeps until COUNT of the guest's commands have ended.
    ///
    /// # Errors
    /// If Xen cannot be had, or the machine does not power off.
    pub fn run(&self, dom0: &[&str], guest: &[&str]) -> Result<XenReport> {
        let folder = tempfile::tempdir().context("a folder for the lab")?;
        let folder = folder.path();
        let results = format!(
            "lab-xen results {}",
            inside::in_order_of_results(guest).len()
        );
        let commands = [&["lab-xen start"], dom0, &[&results]].concat();
        let xen = packages::install()?;
        let packaged = packaged::files(&self.packaged)?;
        let guests = self.guests_files(folder, guest, &packaged)?;
        let carried = [guests, packaged].concat();
        let mut dom0 = self.boot(folder, &xen, &commands, carried)?;
        let reported = dom0.outputs.pop().context("no results of the guest")?;
        Ok(XenReport {
            guest: inside::outputs(reported.text()?.as_bytes())?,
            guest_console: reported.stderr,
            dom0,
        })
    }

    /// Boots a Dom0 with Xen's programs and an unpacked kernel for guests, and runs its commands. A
    /// program in it can create guests as in any other Dom0 ([`XenGuest`]).
    ///
    /// # Errors
    /// If Xen cannot be had, or the machine does not power off.
    pub fn run_dom0(&self, commands: &[&str]) -> Result<LabReport> {
        let folder = tempfile::tempdir().context("a folder for the lab")?;
        let xen = packages::install()?;
        let mut carried =
            guest_of_lab::kernel(&kernel::install(self.guest_kernel, DebianSuite::Own)?)?;
        carried.push(xen.file("bin/xenconsole")?);
        carried.extend(packaged::files(&self.packaged)?);
        let commands = [&["lab-xen serve"], commands].concat();
        self.boot(folder.path(), &xen, &commands, carried)
    }

    /// Boots Dom0, whose first command starts Xen's programs. Returns its output without that
    /// command's.
    fn boot(
        &self,
        folder: &Path,
        xen: &packages::Xen,
        commands: &[&str],
        mut carried: Vec<Carried>,
    ) -> Result<LabReport> {
        let qemu = self.domain.kind.qemu()?;
        let image = kernel::install(self.dom0_kernel, DebianSuite::Own)?;
        carried.extend(xen.programs()?);
        if self.domain.kind == XenType::Hvm {
            carried.extend(device_model::files(xen, qemu)?);
        }
        let contents = Contents {
            modules: &image.modules_of_dom0()?,
            programs: &[&self.programs[..], &[crate::lab_program("lab-xen")?]].concat(),
            carried: &carried,
            commands,
            results: inside::SERIAL_PORT,
        };
        let initramfs = folder.join("initramfs");
        initramfs::write(&initramfs, &contents)?;
        let hypervisor = folder.join("hypervisor");
        std::fs::write(&hypervisor, xen.hypervisor()?)?;
        // Unpacked, because Xen would unpack the kernel in emulation, many times slower.
        let vmlinux = folder.join("dom0");
        // QEMU ends the path of a multiboot module at its first space, and this tree's own path may
        // have one.
        symlink(image.vmlinux()?, &vmlinux)?;
        let arguments = [
            arguments::machine(1, MEMORY_MIB, arguments::CPU_FOR_XEN),
            arguments::time(Some(self.shift), self.seed),
            arguments::xen(&hypervisor, &vmlinux, &initramfs, self.scheduler),
        ];
        let boot = Boot {
            qemu,
            arguments: arguments.concat(),
            commands,
            kernel_version: &image.version,
            patience: Patience {
                backstop: BACKSTOP,
                asked_to_end: Arc::clone(&self.asked_to_end),
            },
        };
        let mut report = boot.run(folder)?;
        ensure!(report.outputs.len() > 1, "Dom0 has said nothing");
        let started = report.outputs.remove(0);
        started.text().context("starting Xen's programs")?;
        Ok(report)
    }

    /// Returns the guest's kernel, its initramfs, and its configuration for `xl`.
    fn guests_files(
        &self,
        folder: &Path,
        commands: &[&str],
        carried: &[Carried],
    ) -> Result<Vec<Carried>> {
        let image = XenImage::write(
            folder,
            self.domain.kind,
            self.guest_kernel,
            &self.programs,
            carried,
            commands,
        )?;
        let domain = folder.join("domain");
        let inside = [GUEST_KERNEL, GUEST_INITRAMFS].map(Path::new);
        std::fs::write(&domain, self.domain.text("lab", inside))?;
        Ok(vec![
            Carried::new(GUEST_KERNEL, &image.kernel),
            Carried::new(GUEST_INITRAMFS, &image.initramfs),
            Carried::new(XEN_DOMAIN, &domain),
        ])
    }
}
