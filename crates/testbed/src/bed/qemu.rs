//! Selects the QEMU that emulates the labs. Debian 12 has QEMU 7.2, whose emulator may execute a
//! breakpoint that the kernel has already removed (`machine.rs`). Debian's backports have a newer
//! QEMU. The lab unpacks it and runs it from its folder, and does not change the installed QEMU.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use anyhow::{Context, Result, anyhow, ensure};

use super::apt::{self, Apt, Bundle, DebianSuite, call};
use super::mended;

/// Name of the program on every machine.
pub(super) const PROGRAM: &str = "qemu-system-x86_64";
/// First version that locks a page while it translates the page's code (commit deba78709ae8).
/// Otherwise another CPU may replace the code during its translation.
const SOUND: [u32; 2] = [8, 1];
/// First known version with this fault: a guest of emulated SVM exits when it reads CR2, although
/// its hypervisor requested exits only for CR0. Version 7.2 does not have the fault.
const EXITS_AT_CR2: [u32; 2] = [10, 0];
/// First version that can emulate several CPUs under virtual time. Older versions hang with two
/// CPUs.
const TAKES_TURNS: [u32; 2] = [10, 0];
/// Packages of QEMU and its firmware. The machine already has the libraries of QEMU.
const PACKAGES: [&str; 3] = ["qemu-system-x86", "qemu-system-data", "seabios"];
/// Folders of the firmware in [`PACKAGES`].
const FIRMWARE: [&str; 2] = ["usr/share/qemu", "usr/share/seabios"];
/// Folder of QEMU's modules, relative to the folder of QEMU's program.
const MODULES: &str = "../lib/x86_64-linux-gnu/qemu";

/// A QEMU that works on this machine.
#[derive(Debug)]
pub(super) struct Qemu {
    program: String,
    /// Version of QEMU, such as `10.0.2`.
    version: String,
    /// Folders in which QEMU looks for firmware before its default folders.
    firmware: Vec<String>,
    /// Folder of QEMU's modules; `None` for the default. The emulator of QEMU 7.2 is such a module.
    modules: Option<PathBuf>,
}

impl Qemu {
    /// Returns the QEMU for all labs of this process. The first call prints the version of QEMU.
    ///
    /// # Errors
    /// If this machine has no QEMU.
    pub(super) fn chosen() -> Result<&'static Qemu> {
        static CHOSEN: LazyLock<Result<Qemu>> = LazyLock::new(choose);
        CHOSEN.as_ref().map_err(|error| anyhow!("{error:#}"))
    }

    /// Returns a QEMU in which a guest of emulated SVM can read CR2 without an exit, although the
    /// guest's hypervisor requests exits for other control registers. Xen does this.
    ///
    /// # Errors
    /// If this machine has no such QEMU.
    pub(super) fn with_reads_of_cr2() -> Result<&'static Qemu> {
        static OWN: LazyLock<Result<Qemu>> = LazyLock::new(|| {
            let (own, fault) = Qemu::own()?.mended_if_possible();
            eprintln!("this lab runs on QEMU {}{fault}", own.version);
            Ok(own)
        });
        let own = OWN.as_ref().map_err(|error| anyhow!("{error:#}"))?;
        ensure!(
            !own.is_since(EXITS_AT_CR2),
            "QEMU {} lets each page fault of such a guest fail: install one before 10.0",
            own.version
        );
        Ok(own)
    }

    fn own() -> Result<Qemu> {
        Qemu::found(PROGRAM.into(), Vec::new()).context("package qemu-system-x86")
    }

    fn of_backports() -> Result<Qemu> {
        let bundle = newer();
        if !bundle.is_here() {
            let apt = Apt::of(DebianSuite::BookwormBackports)?;
            apt.update()?;
            apt.unpack(&bundle)?;
        }
        let folder = bundle.folder;
        let firmware = FIRMWARE.map(|inside| folder.join(inside).display().to_string());
        let program = folder.join("usr/bin").join(PROGRAM);
        Qemu::found(program.display().to_string(), firmware.to_vec())
    }

    fn found(program: String, firmware: Vec<String>) -> Result<Qemu> {
        let said = call(&program, &["--version"], Path::new("."))?;
        let version = version(&said).with_context(|| format!("no version of QEMU: {said}"))?;
        Ok(Qemu {
            version: version.to_owned(),
            program,
            firmware,
            modules: None,
        })
    }

    /// Returns this QEMU with a repaired copy of its program (`mended.rs`).
    fn mended(&self) -> Result<Qemu> {
        let folder = format!("qemu-mended-{}", self.version);
        let copy = apt::kept().join(folder).join(PROGRAM);
        if !copy.is_file() {
            mended::write(&self.file()?, &copy)?;
        }
        let firmware = self.folders()?.lines().map(str::to_owned).collect();
        let modules = self.file()?.with_file_name(MODULES);
        Ok(Qemu {
            modules: Some(modules),
            ..Qemu::found(copy.display().to_string(), firmware)?
        })
    }

    /// Returns the result of `mended`, and an empty text. If `mended` fails, returns this QEMU, and
    /// a text that describes the fault of this QEMU.
    fn mended_if_possible(self) -> (Qemu, String) {
        match self.mended() {
            Ok(mended) => (mended, String::new()),
            Err(error) => (
                self,
                format!("; it may deliver an interrupt to a guest's guest twice: {error:#}"),
            ),
        }
    }

    /// Checks that this version can emulate several CPUs under virtual time.
    ///
    /// # Errors
    /// If this version hangs with several CPUs.
    pub(super) fn ensure_takes_turns(&self) -> Result<()> {
        ensure!(
            self.is_since(TAKES_TURNS),
            "QEMU {} hangs with several CPUs under virtual time: install 10.0 or later",
            self.version
        );
        Ok(())
    }

    fn is_since(&self, version: [u32; 2]) -> bool {
        let numbers = self
            .version
            .split('.')
            .map_while(|word| word.parse::<u32>().ok());
        numbers.ge(version)
    }

    /// Returns the path of QEMU's program.
    pub(super) fn file(&self) -> Result<PathBuf> {
        let said = call("which", &[&self.program], Path::new("."))?;
        Ok(said.trim().into())
    }

    /// Returns a command that starts QEMU with its firmware and modules.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(self.firmware_arguments());
        if let Some(modules) = &self.modules {
            command.env("QEMU_MODULE_DIR", modules);
        }
        command
    }

    /// Returns the path of a file of QEMU's firmware.
    pub(super) fn firmware(&self, name: &str) -> Result<PathBuf> {
        let folders = self.folders()?;
        let mut files = folders.lines().map(|folder| Path::new(folder).join(name));
        let file = files.find(|file| file.is_file());
        file.with_context(|| format!("QEMU {} has no {name} (package seabios)", self.version))
    }

    /// Returns the folders in which QEMU looks for firmware, one per line.
    fn folders(&self) -> Result<String> {
        let mut arguments = self.firmware_arguments();
        arguments.extend(["-L", "help"]);
        call(&self.program, &arguments, Path::new("."))
    }

    fn firmware_arguments(&self) -> Vec<&str> {
        let folders = self.firmware.iter();
        folders.flat_map(|folder| ["-L", folder]).collect()
    }
}

/// Returns the packages of a QEMU that does not have the faults of the QEMU in Debian 12.
fn newer() -> Bundle {
    Bundle {
        packages: PACKAGES.map(str::to_owned).to_vec(),
        folder: apt::kept().join("qemu-bookworm-backports"),
    }
}

/// Returns the packages that labs need in addition to the machine's own QEMU; `None` if none.
///
/// # Errors
/// If this machine has no QEMU.
pub(super) fn bundle() -> Result<Option<Bundle>> {
    Ok((!Qemu::own()?.is_since(SOUND)).then(newer))
}

fn choose() -> Result<Qemu> {
    let own = Qemu::own()?;
    let (qemu, why) = if own.is_since(SOUND) {
        (own, String::new())
    } else {
        match Qemu::of_backports() {
            Ok(newer) => (newer, String::new()),
            Err(error) => (own, format!(", as there is no newer one: {error:#}")),
        }
    };
    let (qemu, fault) = qemu.mended_if_possible();
    eprintln!("labs run on QEMU {}{why}{fault}", qemu.version);
    Ok(qemu)
}

/// Returns the version from `QEMU emulator version 7.2.22 (Debian …)`.
fn version(said: &str) -> Option<&str> {
    said.split_once("version ")?.1.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_old_or_new() {
        let qemu = |said: &str| Qemu {
            program: PROGRAM.into(),
            version: version(said).unwrap().to_owned(),
            firmware: Vec::new(),
            modules: None,
        };
        assert!(!qemu("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)\n").is_since(SOUND));
        assert!(qemu("QEMU emulator version 10.0.2\nCopyright").is_since(SOUND));
        assert_eq!(version("QEMU"), None);
    }
}
