//! Labs with Xen: Debian's hypervisor, a Dom0, and a guest. Dom0 and the guest run commands in the
//! same way as a lab. All share one CPU under virtual time. So Dom0 takes exactly its own running
//! time from the guest, and no time while Dom0 sleeps. [`XenGuest`] is a guest of a Xen that runs
//! on this machine itself.

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

/// Maximum time of a lab with Xen before it counts as hung. Labs usually take much less.
const BACKSTOP: Duration = Duration::from_secs(600);
/// Memory of the machine in MiB. Dom0 has 1 GiB of it.
const MEMORY_MIB: u32 = 2048;

/// Returns the packages that Xen needs. If `has_device_model`, they include the QEMU in Dom0.
pub(super) fn bundles(has_device_model: bool) -> Result<Vec<Bundle>> {
    let xen = packages::bundle(&Apt::of(DebianSuite::Own)?)?;
    let device_model = has_device_model.then(|| device_model::bundle(&xen.folder));
    let device_model = device_model.transpose()?;
    Ok([xen].into_iter().chain(device_model).collect())
}

impl XenType {
    /// Returns the QEMU that can emulate a machine whose Xen guest has this type.
    fn qemu(self) -> Result<&'static Qemu> {
        match self {
            XenType::Pv => Qemu::chosen(),
            XenType::Pvh | XenType::Hvm => Qemu::with_reads_of_cr2(),
        }
    }

    /// Returns the exponent of the default virtual time: an instruction takes 2^`shift` ns. It is
    /// lowest for an HVM guest, whose firmware executes many instructions. With a higher value the
    /// firmware would take minutes, and the commands that wait for the guest would give up.
    fn shift(self) -> u8 {
        match self {
            XenType::Pv | XenType::Pvh => 2,
            XenType::Hvm => 0,
        }
    }
}

/// A machine with Xen that is ready to boot.
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

/// Output of a lab with Xen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XenReport {
    /// Outputs of the guest's commands that the guest waited for, in order.
    pub guest: Vec<CommandOutput>,
    /// Everything that the guest wrote to its console.
    pub guest_console: String,
    /// Output of Dom0, without the commands that start the guest and collect the guest's results.
    pub dom0: LabReport,
}

impl XenLab {
    /// Creates a lab with a PV guest, which has one vCPU, `vmnoise` and the cloud kernel. A PV
    /// guest knows that it has no hardware.
    pub fn pv() -> XenLab {
        XenLab::of(XenType::Pv)
    }

    /// Creates a lab with a PVH guest. The guest is as in `pv`, but runs in SVM with its own page
    /// tables, and has no hardware except its CPU.
    pub fn pvh() -> XenLab {
        XenLab::of(XenType::Pvh)
    }

    /// Creates a lab with an HVM guest. The guest is as in `pvh`, but has a whole machine, which a
    /// QEMU in Dom0 emulates.
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

    /// Uses another kernel for Dom0 than the plain kernel. The cloud kernel cannot be a Dom0.
    pub fn dom0_kernel(mut self, kernel: DebianKernel) -> XenLab {
        self.dom0_kernel = kernel;
        self
    }

    /// Uses another kernel for the guest than the cloud kernel.
    pub fn guest_kernel(mut self, kernel: DebianKernel) -> XenLab {
        self.guest_kernel = kernel;
        self
    }

    /// Sets the virtual time of one instruction to 2^`shift` ns. The default depends on the guest's
    /// type.
    pub fn virtual_time(mut self, shift: u8) -> XenLab {
        self.shift = shift;
        self
    }

    /// Sets the seed of the machine's random numbers.
    pub fn seed(mut self, seed: u64) -> XenLab {
        self.seed = seed;
        self
    }

    /// Ends the machine early when `asked_to_end` becomes true. `run` then returns an error.
    pub fn until(mut self, asked_to_end: &Arc<AtomicBool>) -> XenLab {
        self.asked_to_end = Arc::clone(asked_to_end);
        self
    }

    /// Uses another scheduler of Xen than Xen's default.
    pub fn scheduler(mut self, name: &'static str) -> XenLab {
        self.scheduler = Some(name);
        self
    }

    /// Sets the words that are appended to the command line of the guest's kernel.
    pub fn command_line(mut self, words: &str) -> XenLab {
        self.domain.command_line = words.to_owned();
        self
    }

    /// Makes Xen emulate each time that the guest reads the TSC.
    pub fn emulate_tsc(mut self) -> XenLab {
        self.domain.emulates_tsc = true;
        self
    }

    /// Puts a static program into `/bin` of Dom0 and of the guest.
    pub fn program(mut self, path: &Path) -> XenLab {
        self.programs.push(path.to_owned());
        self
    }

    /// Puts a Debian program with its libraries into `/bin` of Dom0 and of the guest.
    pub fn packaged(mut self, packaged: DebianProgram) -> XenLab {
        self.packaged.push(packaged);
        self
    }

    /// Boots the machine, starts the guest with its commands, and runs Dom0's commands at the same
    /// time. Powers off when both are done. [`super::Lab::run`] describes how commands are written.
    /// The command `lab-xen told COUNT` in Dom0 sleeps until COUNT of the guest's commands have
    /// ended.
    ///
    /// # Errors
    /// If Xen cannot be fetched, or the machine does not power off.
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

    /// Boots a Dom0 with Xen's programs and an unpacked kernel for guests, and runs Dom0's
    /// commands. A program in this Dom0 can create guests with [`XenGuest`], as in any other Dom0.
    ///
    /// # Errors
    /// If Xen cannot be fetched, or the machine does not power off.
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

    /// Boots Dom0. Its first command starts Xen's programs. Returns Dom0's output without the
    /// output of this command.
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
        // Unpacked, because otherwise Xen would unpack the kernel, which is many times slower in
        // emulation.
        let vmlinux = folder.join("dom0");
        // QEMU cuts the path of a multiboot module at its first space, and the path of this source
        // tree may contain a space.
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

    /// Returns the guest's kernel, the guest's initramfs, and the guest's configuration for `xl`.
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
