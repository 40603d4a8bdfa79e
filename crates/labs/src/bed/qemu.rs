//! Which QEMU emulates the labs. Debian 12 has 7.2, whose emulator may run a breakpoint
//! that is no longer there (`machine.rs`); its backports have a newer one, which runs from
//! where it is unpacked. The machine's own stays as it is.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use anyhow::{Context, Result, anyhow, ensure};

use super::apt::{self, Apt, Bundle, Suite, call};
use super::mended;

/// The program, its name on every machine.
pub(super) const PROGRAM: &str = "qemu-system-x86_64";
/// The first that locks a page before it translates what lies there (its commit
/// deba78709ae8): no translation is of what another CPU has replaced meanwhile.
const SOUND: [u32; 2] = [8, 1];
/// In this one (7.2 not yet) an emulated guest of SVM that reads CR2 exits where its
/// hypervisor asked for exits at CR0 alone.
const EXITS_AT_CR2: [u32; 2] = [10, 0];
/// The first under whose virtual time several CPUs take turns; before, a lab with two hangs.
const TAKES_TURNS: [u32; 2] = [10, 0];
/// It, and the firmware that it reads. Its libraries are those of the machine's own.
const PACKAGES: [&str; 3] = ["qemu-system-x86", "qemu-system-data", "seabios"];
/// Where they have firmware.
const FIRMWARE: [&str; 2] = ["usr/share/qemu", "usr/share/seabios"];
/// Where they have modules, from the folder of their programs.
const MODULES: &str = "../lib/x86_64-linux-gnu/qemu";

/// A QEMU that works on this machine.
#[derive(Debug)]
pub(super) struct Qemu {
    program: String,
    /// `10.0.2`.
    version: String,
    /// Folders in front of those that it knows.
    firmware: Vec<String>,
    /// Where its modules are, if not where it looks for them. 7.2 has its emulator in one.
    modules: Option<PathBuf>,
}

impl Qemu {
    /// The one for all labs of this process. It is printed once.
    ///
    /// # Errors
    /// If this machine has none.
    pub(super) fn chosen() -> Result<&'static Qemu> {
        static CHOSEN: LazyLock<Result<Qemu>> = LazyLock::new(choose);
        CHOSEN.as_ref().map_err(|error| anyhow!("{error:#}"))
    }

    /// One in which a guest of the emulated SVM reads its own CR2, whatever other control
    /// registers its hypervisor watches, as Xen does.
    ///
    /// # Errors
    /// If this machine has none.
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
            let apt = Apt::of(Suite::BookwormBackports)?;
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

    /// It, with a copy of its program that has one fault less (`mended.rs`).
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

    /// As `mended`, or it as it is, and what is wrong with it then.
    fn mended_if_possible(self) -> (Qemu, String) {
        match self.mended() {
            Ok(mended) => (mended, String::new()),
            Err(error) => (
                self,
                format!("; it may deliver an interrupt to a guest's guest twice: {error:#}"),
            ),
        }
    }

    /// That several CPUs can share virtual time.
    ///
    /// # Errors
    /// If they cannot.
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

    /// Its program's file.
    pub(super) fn file(&self) -> Result<PathBuf> {
        let said = call("which", &[&self.program], Path::new("."))?;
        Ok(said.trim().into())
    }

    /// It, with its firmware.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(self.firmware_arguments());
        if let Some(modules) = &self.modules {
            command.env("QEMU_MODULE_DIR", modules);
        }
        command
    }

    /// A file of its firmware.
    pub(super) fn firmware(&self, name: &str) -> Result<PathBuf> {
        let folders = self.folders()?;
        let mut files = folders.lines().map(|folder| Path::new(folder).join(name));
        let file = files.find(|file| file.is_file());
        file.with_context(|| format!("QEMU {} has no {name} (package seabios)", self.version))
    }

    /// Where it looks for firmware, a folder a line.
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

/// One without the faults of Debian 12's own.
fn newer() -> Bundle {
    Bundle {
        packages: PACKAGES.map(str::to_owned).to_vec(),
        folder: apt::kept().join("qemu-bookworm-backports"),
    }
}

/// What has to be there beside the machine's own QEMU, if anything has to.
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

/// Out of `QEMU emulator version 7.2.22 (Debian …)`.
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
