//! Xen in a lab: Debian's hypervisor, a Dom0 that is a lab of its own, and a guest of it
//! that runs commands as a lab does. All on one CPU under virtual time, so that whatever
//! Dom0 does is taken from the guest, and nothing is while it sleeps.

mod device_model;
mod packages;

pub(super) use device_model::PACKAGE as DEVICE_MODEL;
pub(super) use packages::META;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::apt::{Apt, Bundle, call};
use super::boot::{Boot, LabReport};
use super::carried::Carried;
use super::initramfs::{self, Contents};
use super::inside::{self, CommandOutput, GUEST_INITRAMFS, GUEST_KERNEL, XEN_DOMAIN};
use super::kernel::{self, Kernel};
use super::machine::Patience;
use super::packaged::{self, Packaged};
use super::qemu::Qemu;
use super::{SEED, Suite, arguments};

/// How long a lab of Xen may take before it counts as hung; no estimate of how long it takes.
const BACKSTOP: Duration = Duration::from_secs(600);
/// Of the machine: Dom0 has 1 GiB of it.
const MEMORY_MIB: u32 = 2048;

/// What has to be there for Xen, with a QEMU in Dom0 or without.
pub(super) fn bundles(has_device_model: bool) -> Result<Vec<Bundle>> {
    let xen = packages::bundle(&Apt::of(Suite::Own)?)?;
    let device_model = has_device_model.then(|| device_model::bundle(&xen.folder));
    let device_model = device_model.transpose()?;
    Ok([xen].into_iter().chain(device_model).collect())
}

/// What a guest of Xen knows of that, and so how it is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Pv,
    Pvh,
    Hvm,
}

impl Type {
    /// As xl.cfg(5) has it.
    fn name(self) -> &'static str {
        match self {
            Type::Pv => "pv",
            Type::Pvh => "pvh",
            Type::Hvm => "hvm",
        }
    }

    /// What emulates it.
    fn qemu(self) -> Result<&'static Qemu> {
        match self {
            Type::Pv => Qemu::chosen(),
            Type::Pvh | Type::Hvm => Qemu::with_reads_of_cr2(),
        }
    }

    /// 2^this ns an instruction. The firmware of an HVM guest is minutes of them, and who waits
    /// for the guest has no minutes.
    fn shift(self) -> u8 {
        match self {
            Type::Pv | Type::Pvh => 2,
            Type::Hvm => 0,
        }
    }
}

/// A machine with Xen that is yet to be booted.
#[derive(Debug, Clone)]
pub struct XenLab {
    type_of_guest: Type,
    dom0_kernel: Kernel,
    guest_kernel: Kernel,
    shift: u8,
    seed: u64,
    asked_to_end: Arc<AtomicBool>,
    scheduler: Option<&'static str>,
    command_line: String,
    emulates_tsc: bool,
    programs: Vec<PathBuf>,
    packaged: Vec<Packaged>,
}

/// What it brought out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XenReport {
    /// Of the guest, one for each command that was waited for, in their order.
    pub guest: Vec<CommandOutput>,
    /// All that the guest said on its console.
    pub guest_console: String,
    /// Of Dom0, without what started the guest and brought its results out.
    pub dom0: LabReport,
}

impl XenLab {
    /// A guest of one vCPU with `vmnoise` and the cloud kernel, which knows that it has no
    /// hardware (PV).
    pub fn pv() -> XenLab {
        XenLab::of(Type::Pv)
    }

    /// As `pv`, in SVM: it has its own page tables, and no hardware but its CPU (PVH).
    pub fn pvh() -> XenLab {
        XenLab::of(Type::Pvh)
    }

    /// As `pvh`, with a whole machine around it, which a QEMU in Dom0 emulates (HVM).
    pub fn hvm() -> XenLab {
        XenLab::of(Type::Hvm)
    }

    fn of(type_of_guest: Type) -> XenLab {
        XenLab {
            type_of_guest,
            dom0_kernel: Kernel::Plain,
            guest_kernel: Kernel::Cloud,
            shift: type_of_guest.shift(),
            seed: SEED,
            asked_to_end: Arc::default(),
            scheduler: None,
            command_line: String::new(),
            emulates_tsc: false,
            programs: vec![crate::binary()],
            packaged: Vec::new(),
        }
    }

    /// Lets Dom0 have another kernel than the plain one. The cloud kernel cannot be a Dom0.
    pub fn dom0_kernel(mut self, kernel: Kernel) -> XenLab {
        self.dom0_kernel = kernel;
        self
    }

    /// Lets the guest have another kernel than the cloud one.
    pub fn guest_kernel(mut self, kernel: Kernel) -> XenLab {
        self.guest_kernel = kernel;
        self
    }

    /// Lets an instruction take 2^`shift` ns, and not what is usual for its type.
    pub fn virtual_time(mut self, shift: u8) -> XenLab {
        self.shift = shift;
        self
    }

    /// Lets what is random come from this seed.
    pub fn seed(mut self, seed: u64) -> XenLab {
        self.seed = seed;
        self
    }

    /// Ends it early, and lets `run` fail, once this is true.
    pub fn until(mut self, asked_to_end: &Arc<AtomicBool>) -> XenLab {
        self.asked_to_end = Arc::clone(asked_to_end);
        self
    }

    /// Lets Xen take another scheduler than its own choice.
    pub fn scheduler(mut self, name: &'static str) -> XenLab {
        self.scheduler = Some(name);
        self
    }

    /// Passes this on to the guest's kernel too.
    pub fn command_line(mut self, words: &str) -> XenLab {
        self.command_line = words.to_owned();
        self
    }

    /// Lets Xen answer each time that the guest reads the TSC.
    pub fn emulate_tsc(mut self) -> XenLab {
        self.emulates_tsc = true;
        self
    }

    /// Puts a static program into `/bin` of Dom0 and of the guest.
    pub fn program(mut self, path: &Path) -> XenLab {
        self.programs.push(path.to_owned());
        self
    }

    /// Puts a program of Debian into `/bin` of Dom0 and of the guest, with its libraries.
    pub fn packaged(mut self, packaged: Packaged) -> XenLab {
        self.packaged.push(packaged);
        self
    }

    /// Boots, starts the guest, which runs its commands, runs Dom0's meanwhile, and powers off
    /// when both are through. Commands are those of [`super::Lab::run`]. `lab-xen told COUNT`
    /// in Dom0 sleeps until so many of the guest's commands have ended.
    ///
    /// # Errors
    /// If Xen cannot be had, or the machine does not come to its end.
    pub fn run(&self, dom0: &[&str], guest: &[&str]) -> Result<XenReport> {
        let folder = tempfile::tempdir().context("a folder for the lab")?;
        let folder = folder.path();
        let xen = packages::install()?;
        let image = kernel::install(self.dom0_kernel, Suite::Own)?;
        let results = format!(
            "lab-xen results {}",
            inside::in_order_of_results(guest).len()
        );
        let commands = [&["lab-xen start"], dom0, &[&results]].concat();
        let packaged = packaged::files(&self.packaged)?;
        let mut carried = self.guests_files(folder, guest, &packaged)?;
        carried.extend(packaged);
        carried.extend(xen.programs()?);
        if self.type_of_guest == Type::Hvm {
            carried.extend(device_model::files(&xen, self.type_of_guest.qemu()?)?);
        }
        let contents = Contents {
            modules: &image.modules_of_dom0()?,
            programs: &[&self.programs[..], &[crate::lab_program("lab-xen")?]].concat(),
            carried: &carried,
            commands: &commands,
            results: inside::SERIAL_PORT,
        };
        let initramfs = folder.join("initramfs");
        initramfs::write(&initramfs, &contents)?;
        let hypervisor = folder.join("hypervisor");
        std::fs::write(&hypervisor, xen.hypervisor()?)?;
        // Xen would unpack it in emulation, many times slower.
        let vmlinux = image.vmlinux()?;
        let arguments = [
            arguments::machine(1, MEMORY_MIB, arguments::CPU_FOR_XEN),
            arguments::time(Some(self.shift), self.seed),
            arguments::xen(&hypervisor, &vmlinux, &initramfs, self.scheduler),
        ];
        let boot = Boot {
            qemu: self.type_of_guest.qemu()?,
            arguments: arguments.concat(),
            commands: &commands,
            kernel_version: &image.version,
            patience: Patience {
                backstop: BACKSTOP,
                asked_to_end: Arc::clone(&self.asked_to_end),
            },
        };
        let mut dom0 = boot.run(folder)?;
        ensure!(dom0.outputs.len() > 1, "Dom0 has said nothing");
        dom0.outputs
            .remove(0)
            .text()
            .context("starting Xen's programs and the guest")?;
        let reported = dom0.outputs.pop().context("no results of the guest")?;
        Ok(XenReport {
            guest: inside::outputs(reported.text()?.as_bytes())?,
            guest_console: reported.stderr,
            dom0,
        })
    }

    /// The guest's kernel, its initramfs, and what `xl` is told of it.
    fn guests_files(
        &self,
        folder: &Path,
        commands: &[&str],
        carried: &[Carried],
    ) -> Result<Vec<Carried>> {
        let image = kernel::install(self.guest_kernel, Suite::Own)?;
        let contents = Contents {
            modules: &[],
            programs: &self.programs,
            carried,
            commands,
            results: inside::XEN_CONSOLE,
        };
        let mut initramfs = folder.join("guest-initramfs");
        initramfs::write(&initramfs, &contents)?;
        let kernel = if self.type_of_guest == Type::Hvm {
            // Its firmware starts what any PC does, and reads it a byte at a time.
            call("gzip", &["-9", "guest-initramfs"], folder)?;
            initramfs.set_extension("gz");
            image.vmlinuz
        } else {
            image.vmlinux()?
        };
        let domain = folder.join("domain");
        std::fs::write(&domain, self.domain())?;
        Ok(vec![
            Carried::new(GUEST_KERNEL, &kernel),
            Carried::new(GUEST_INITRAMFS, &initramfs),
            Carried::new(XEN_DOMAIN, &domain),
        ])
    }

    /// What xl.cfg(5) describes. A guest that has ended stays, so that all it said is read.
    fn domain(&self) -> String {
        let line = format!(
            "console=hvc0 quiet panic=-1 random.trust_cpu=off {}",
            self.command_line
        );
        let tsc_mode = match self.emulates_tsc {
            true => "always_emulate",
            false => "default",
        };
        let settings = [
            ("tsc_mode", format!("{tsc_mode:?}")),
            ("name", "\"lab\"".to_owned()),
            ("type", format!("{:?}", self.type_of_guest.name())),
            ("kernel", format!("{GUEST_KERNEL:?}")),
            ("ramdisk", format!("{GUEST_INITRAMFS:?}")),
            ("cmdline", format!("{:?}", line.trim_end())),
            ("memory", "512".to_owned()),
            ("vcpus", "1".to_owned()),
            ("on_poweroff", "\"preserve\"".to_owned()),
            ("on_crash", "\"preserve\"".to_owned()),
        ];
        let mut text = settings
            .map(|(key, value)| format!("{key}={value}\n"))
            .concat();
        if self.type_of_guest == Type::Hvm {
            // No screen: its firmware would be one more to emulate.
            text += "vnc=0\nvga=\"none\"\n";
        }
        text
    }
}
