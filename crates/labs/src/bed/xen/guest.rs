//! A Linux guest on the Xen of the Dom0 that this runs in, in real time.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::super::inside::{self, CommandOutput};
use super::super::kernel::Kernel;
use super::super::packaged::{self, Packaged};
use super::domain::XenDomain;
use super::image::XenImage;
use super::xl;
use crate::run::lab_program;
use crate::{placed, urgency};

/// One that boots or runs. Nothing of it is left when it is dropped, or when this process ends in any other way.
#[derive(Debug)]
pub struct XenGuest {
    name: String,
    settings: String,
    /// The domain is there as long as this one's stdin is open.
    keeper: Child,
    console: PathBuf,
    said: PathBuf,
    /// Goes after who writes there.
    _folder: TempDir,
}

impl XenGuest {
    /// Creates such a domain with this kernel, `vmnoise` and these programs, some of them Debian's, which runs
    /// these commands as a lab does.
    ///
    /// # Errors
    /// If the kernel cannot be had, or there is no room for its files. What `xl` says comes with the first look.
    pub fn boot(
        domain: &XenDomain,
        kernel: Kernel,
        programs: &[PathBuf],
        packaged: &[Packaged],
        commands: &[&str],
    ) -> Result<XenGuest> {
        let folder = tempfile::Builder::new()
            .prefix("vmnoise-lab-")
            .tempdir()
            .context("a folder for the guest")?;
        // Random, as that of its folder: no other domain has it.
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
        // Where they lie on this machine is nobody's business who reads of it.
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
            // Ctrl-C is not for it, nor for the `xl` that it runs.
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

    /// What `xl` is told of it, in a line.
    pub fn settings(&self) -> String {
        let settings: Vec<&str> = self.settings.lines().collect();
        settings.join("; ")
    }

    /// Lets all threads that its QEMU has now run on this CPU of Dom0 and no other.
    ///
    /// # Errors
    /// If it has none, or there is no such CPU.
    pub fn pin_vmm(&self, cpu: u32) -> Result<()> {
        placed::pin_all(self.vmm()?, cpu)
    }

    /// Likewise, at SCHED_FIFO with this priority.
    ///
    /// # Errors
    /// If it has none, or the kernel refuses.
    pub fn set_vmm_fifo(&self, priority: i32) -> Result<()> {
        urgency::set_fifo(self.vmm()?, priority)
    }

    fn vmm(&self) -> Result<u32> {
        let domain = xl::domain(&self.name)?.context("the domain is gone")?;
        xl::device_model(domain)
    }

    /// Whether so many of its commands have ended.
    ///
    /// # Errors
    /// If it could not be created.
    pub fn has_reported(&mut self, count: usize) -> Result<bool> {
        let ended = self.keeper.try_wait()?;
        ensure!(ended.is_none(), "the domain is not there");
        let reported = inside::results_on_console(&text(&self.console));
        Ok(reported.lines().count() >= count)
    }

    /// How much it has said.
    pub fn said_bytes(&self) -> u64 {
        std::fs::metadata(&self.console).map_or(0, |console| console.len())
    }

    /// What its commands said that have ended.
    ///
    /// # Errors
    /// If that is no text.
    pub fn outputs(&self) -> Result<Vec<CommandOutput>> {
        inside::outputs(inside::results_on_console(&text(&self.console)).as_bytes())
    }

    /// What its kernel and its commands said, after what `xl` did.
    pub fn console(&self) -> String {
        text(&self.said) + &text(&self.console)
    }
}

impl Drop for XenGuest {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
        // What held it may have been killed before it could do this; nobody else has a domain of this name.
        if let Ok(Some(number)) = xl::domain(&self.name) {
            let _ = xl::said(&["destroy", &number.to_string()]);
        }
    }
}

fn text(file: &Path) -> String {
    let bytes = std::fs::read(file).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
