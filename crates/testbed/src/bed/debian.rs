//! Boots a Debian system from a disk, with its own kernel, initramfs and service manager.

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

/// Kernel parameter that names the root disk.
const ROOT: &str = "root=/dev/vda rw";
/// Size of the disk, a sparse file.
const BYTES: &str = "2G";
const MEMORY_MIB: u32 = 1024;
/// Exponent of the virtual time: an instruction takes 2^1 ns. Debian's services time out by this
/// clock, so a busy host cannot cause a timeout.
const VIRTUAL_TIME: Option<u8> = Some(1);

/// Maximum time of a boot before it counts as hung. The boot starts all services of a Debian
/// system.
const BACKSTOP: Duration = Duration::from_secs(900);

/// systemd unit that runs the commands after it has started all default services.
const UNIT: &str = "[Unit]\nAfter=multi-user.target\n\
                    [Service]\nType=exec\nExecStart=/lab/init\nStandardError=tty\nTTYPath=/dev/console\n";
const UNIT_FILE: &str = "etc/systemd/system/lab.service";
const WANTED: &str = "etc/systemd/system/graphical.target.wants/lab.service";

/// Root folder of a Debian system on this machine's disk, with one kernel and systemd.
#[derive(Debug)]
pub struct Debian<'a> {
    root: &'a Path,
}

impl<'a> Debian<'a> {
    /// Returns the Debian system in this folder. The caller must keep the folder.
    pub fn of(root: &'a Path) -> Debian<'a> {
        Debian { root }
    }

    /// Boots the Debian system with one CPU in virtual time, runs the commands as root one after
    /// the other, and powers off. [`Lab::run`](super::Lab::run) treats commands in the same way.
    /// Changes that the system makes to its disk are dropped.
    ///
    /// # Errors
    /// If the system has no kernel, or does not power off. The error contains the end of the
    /// system's console, and says how far the boot came.
    pub fn run(&self, commands: &[&str]) -> Result<LabReport> {
        self.prepare(commands)?;
        let (vmlinuz, kernel_version) = self.of_boot("vmlinuz-")?;
        let (initramfs, _) = self.of_boot("initrd.img-")?;
        let beside = self.root.parent().context("no folder around the root")?;
        // The folder is next to the root, because the folder for temporary files may be in memory.
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

    /// Writes the init process, the systemd unit and the commands into the root folder.
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

    /// Returns the path of the file in `/boot` whose name begins with `start`, and the rest of its
    /// name.
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
