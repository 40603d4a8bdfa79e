//! A Debian that boots as itself from a disk: with its own kernel, initramfs and service manager.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};

use super::apt::call;
use super::arguments;
use super::boot::{Boot, LabReport};
use super::inside::{COMMANDS, RESULTS, SERIAL_PORT};
use super::machine::Patience;
use super::qemu::Qemu;

/// Where it finds its root.
const ROOT: &str = "root=/dev/vda rw";
/// It takes no room until it is written.
const BYTES: &str = "2G";
const MEMORY_MIB: u32 = 1024;
/// Two ns an instruction: what starts gives up waiting by the clock, which no busy machine below may move.
const VIRTUAL_TIME: Option<u8> = Some(1);

/// As that of a lab, of one that starts all that a Debian starts.
const BACKSTOP: Duration = Duration::from_secs(900);

/// Runs the commands when all that starts by itself has started.
const UNIT: &str = "[Unit]\nAfter=multi-user.target\n\
                    [Service]\nType=exec\nExecStart=/lab/init\nStandardError=tty\nTTYPath=/dev/console\n";
const UNIT_FILE: &str = "etc/systemd/system/lab.service";
const WANTED: &str = "etc/systemd/system/graphical.target.wants/lab.service";

/// A root of Debian on this machine's disk, with one kernel and systemd in it.
#[derive(Debug)]
pub struct Debian<'a> {
    root: &'a Path,
}

impl<'a> Debian<'a> {
    /// The one in this folder, which is kept by what boots it.
    pub fn of(root: &'a Path) -> Debian<'a> {
        Debian { root }
    }

    /// Boots it with one CPU in virtual time, runs the commands as root one after the other, and powers off, as
    /// [`Lab::run`](super::Lab::run) does; what it writes stays in it.
    ///
    /// # Errors
    /// If it has no kernel, or does not come to its end: the message shows how far it came, and the end of
    /// its console.
    pub fn run(&self, commands: &[&str]) -> Result<LabReport> {
        self.prepare(commands)?;
        let (vmlinuz, kernel_version) = self.of_boot("vmlinuz-")?;
        let (initramfs, _) = self.of_boot("initrd.img-")?;
        let beside = self.root.parent().context("a root has a folder")?;
        // Beside it: a folder for temporary files may be in memory.
        let folder = tempfile::tempdir_in(beside).context("a folder for its disk")?;
        let disk = folder.path().join("disk");
        let (root, disk_name) = (self.root.to_string_lossy(), disk.to_string_lossy());
        let make = ["-q", "-t", "ext4", "-d", &root, &disk_name, BYTES];
        call("mke2fs", &make, Path::new(".")).context("its disk (package e2fsprogs)")?;
        let arguments = [
            arguments::machine(1, MEMORY_MIB, arguments::CPU),
            arguments::time(VIRTUAL_TIME, super::SEED),
            arguments::disk(&disk),
            arguments::kernel(&vmlinuz, &initramfs, VIRTUAL_TIME, ROOT),
        ];
        let boot = Boot {
            qemu: Qemu::chosen()?,
            arguments: arguments.concat(),
            commands,
            kernel_version: &kernel_version,
            patience: Patience {
                backstop: BACKSTOP,
                asked_to_end: Arc::default(),
            },
        };
        boot.run(folder.path())
    }

    /// Puts into it what runs the commands.
    fn prepare(&self, commands: &[&str]) -> Result<()> {
        let inside = |path: &str| self.root.join(path.trim_start_matches('/'));
        let folders = [COMMANDS, WANTED].map(|file| inside(file).with_file_name(""));
        for folder in folders {
            fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        fs::copy(crate::lab_program("lab-init")?, inside("/lab/init"))?;
        fs::write(inside(COMMANDS), commands.join("\n"))?;
        fs::write(inside(UNIT_FILE), UNIT)?;
        symlink("/etc/systemd/system/lab.service", inside(WANTED))?;
        symlink(SERIAL_PORT, inside(RESULTS))?;
        Ok(())
    }

    /// The file in `/boot` that is named so, and what follows in its name.
    fn of_boot(&self, start: &str) -> Result<(PathBuf, String)> {
        let boot = self.root.join("boot");
        let entries = fs::read_dir(&boot).into_iter().flatten().flatten();
        let mut files = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some((entry.path(), name.strip_prefix(start)?.to_owned()))
        });
        let found = files.next();
        found.with_context(|| {
            format!(
                "no {start}* in {}: a package linux-image-* brings it",
                boot.display()
            )
        })
    }
}
