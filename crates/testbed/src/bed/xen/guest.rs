//! A Linux guest of the Xen whose Dom0 runs this code, in real time.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::super::inside::{self, CommandOutput};
use super::super::kernel::DebianKernel;
use super::super::packaged::{self, DebianProgram};
use super::domain::XenDomain;
use super::image::XenImage;
use super::xl;
use crate::run::lab_program;
use crate::{placed, urgency};

/// A guest that boots or runs. The guest ends when this value is dropped, and also if this process
/// ends in any other way.
#[derive(Debug)]
pub struct XenGuest {
    name: String,
    settings: String,
    /// Process that destroys the guest's domain when the process's stdin closes.
    keeper: Child,
    console: PathBuf,
    said: PathBuf,
    /// Temporary folder. It must be dropped after the keeper, which writes files there.
    _folder: TempDir,
}

impl XenGuest {
    /// Creates the guest's domain with this kernel, `vmnoise`, these programs and these Debian
    /// packages. The guest runs the commands in the same way as a lab.
    ///
    /// # Errors
    /// If the kernel cannot be fetched, or the guest's files do not fit. The first `has_reported`
    /// returns an error of `xl`.
    pub fn boot(
        domain: &XenDomain,
        kernel: DebianKernel,
        programs: &[PathBuf],
        packaged: &[DebianProgram],
        commands: &[&str],
    ) -> Result<XenGuest> {
        let folder = tempfile::Builder::new()
            .prefix("vmnoise-lab-")
            .tempdir()
            .context("a folder for the guest")?;
        // The folder's name is random, so no other domain has this name.
        let name = folder.path().file_name().and_then(|name| name.to_str());
        let name = name.context("a folder without a name")?.to_owned();
        let programs = [&[crate::binary()], programs].concat();
        let carried = packaged::files(packaged)?;
        let image = XenImage::write(
            folder.path(),
            domain.kind,
            kernel,
            &programs,
            &carried,
            commands,
        );
        let image = image.with_context(|| {
            let folder = folder.path().display();
            format!("the guest's files in {folder} (TMPDIR names another place)")
        })?;
        let files = [&*image.kernel, &*image.initramfs];
        let [file, console, said] = ["domain", "console", "said"].map(|it| folder.path().join(it));
        std::fs::write(&file, domain.text(&name, files))?;
        // These settings have file names without folders: readers need not know where the files are
        // on this machine.
        let settings = domain.text(
            &name,
            files.map(|file| Path::new(file.file_name().unwrap_or_default())),
        );
        let keeper = Command::new(lab_program("lab-domain")?)
            .arg(&name)
            .arg(&file)
            .stdin(Stdio::piped())
            .stdout(File::create(&console)?)
            .stderr(File::create(&said)?)
            // Its own process group, so that Ctrl-C reaches neither lab-domain nor its `xl`.
            .process_group(0)
            .spawn()
            .context("starting lab-domain")?;
        Ok(XenGuest {
            name,
            settings,
            keeper,
            console,
            said,
            _folder: folder,
        })
    }

    /// Returns the domain's configuration for `xl` on one line.
    pub fn settings(&self) -> String {
        let settings: Vec<&str> = self.settings.lines().collect();
        settings.join("; ")
    }

    /// Pins all current threads of the guest's QEMU to this CPU of Dom0.
    ///
    /// # Errors
    /// If the guest has no QEMU, or there is no such CPU.
    pub fn pin_vmm(&self, cpu: u32) -> Result<()> {
        placed::pin_all(self.vmm()?, cpu)
    }

    /// Runs all current threads of the guest's QEMU at SCHED_FIFO with this priority.
    ///
    /// # Errors
    /// If the guest has no QEMU, or the kernel refuses.
    pub fn set_vmm_fifo(&self, priority: i32) -> Result<()> {
        urgency::set_fifo(self.vmm()?, priority)
    }

    fn vmm(&self) -> Result<u32> {
        let domain = xl::domain(&self.name)?.context("the domain is gone")?;
        xl::device_model(domain)
    }

    /// Returns whether `count` of the guest's commands have ended.
    ///
    /// # Errors
    /// If the domain could not be created.
    pub fn has_reported(&mut self, count: usize) -> Result<bool> {
        let ended = self.keeper.try_wait()?;
        ensure!(ended.is_none(), "the domain is not there");
        let reported = inside::results_on_console(&text(&self.console));
        Ok(reported.lines().count() >= count)
    }

    /// Returns the number of bytes on the guest's console so far.
    pub fn said_bytes(&self) -> u64 {
        std::fs::metadata(&self.console).map_or(0, |console| console.len())
    }

    /// Returns the outputs of the guest's commands that have ended.
    ///
    /// # Errors
    /// If the outputs are not text.
    pub fn outputs(&self) -> Result<Vec<CommandOutput>> {
        inside::outputs(inside::results_on_console(&text(&self.console)).as_bytes())
    }

    /// Returns the output of `xl`, followed by the console of the guest.
    pub fn console(&self) -> String {
        text(&self.said) + &text(&self.console)
    }
}

impl Drop for XenGuest {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
        // If someone killed the keeper before it destroyed the domain, the domain still exists. The
        // name is unique, so this affects no other domain.
        if let Ok(Some(number)) = xl::domain(&self.name) {
            let _ = xl::said(&["destroy", &number.to_string()]);
        }
    }
}

fn text(file: &Path) -> String {
    let bytes = std::fs::read(file).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
