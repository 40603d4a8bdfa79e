//! Stock kernels: the packages of the system's own distribution, found by their meta
//! packages because versions move, and kept unpacked under `target/lab/`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::run::target_folder;

/// A kernel of Debian for amd64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// For virtual machines: the smallest, and the quickest to boot.
    Cloud,
    /// PREEMPT_RT, with the kernel's own osnoise tracer.
    Rt,
}

impl Kernel {
    fn meta_package(self) -> &'static str {
        match self {
            Kernel::Cloud => "linux-image-cloud-amd64",
            Kernel::Rt => "linux-image-rt-amd64",
        }
    }

    /// What KVM on AMD needs, in the order of loading. `ccp` is not built for the
    /// cloud kernel.
    fn modules(self) -> &'static [&'static str] {
        match self {
            Kernel::Cloud => &["irqbypass", "kvm", "kvm-amd"],
            Kernel::Rt => &["irqbypass", "ccp", "kvm", "kvm-amd"],
        }
    }
}

/// A kernel on this machine's disk.
#[derive(Debug)]
pub(super) struct Image {
    /// `uname -r`.
    pub version: String,
    pub vmlinuz: PathBuf,
    /// In the order of loading.
    pub modules: Vec<PathBuf>,
}

/// Finds the kernel's current package and unpacks it, unless that was done before.
pub(super) fn install(kernel: Kernel) -> Result<Image> {
    let folder = match unpacked(kernel) {
        Ok(folder) => folder,
        // A fresh machine has no package lists, one that slept has old ones.
        Err(missing) => {
            call("apt-get", &["update", "-qq"], Path::new("."))
                .with_context(|| format!("looking again, because {missing:#}"))?;
            unpacked(kernel)?
        }
    };
    let boot = files(&folder.join("boot"))?;
    let (vmlinuz, version) = boot
        .iter()
        .find_map(|path| {
            let version = path.file_name()?.to_str()?.strip_prefix("vmlinuz-")?;
            Some((path.clone(), version.to_owned()))
        })
        .with_context(|| format!("{} has no boot/vmlinuz", folder.display()))?;
    let all = files(&folder.join("lib/modules"))?;
    let module = |name: &&str| {
        let file = format!("{name}.ko");
        all.iter()
            .find(|path| path.ends_with(&file))
            .cloned()
            .with_context(|| format!("{} has no module {file}", folder.display()))
    };
    let modules = kernel.modules().iter().map(module).collect::<Result<_>>()?;
    Ok(Image {
        version,
        vmlinuz,
        modules,
    })
}

/// The folder that holds the current package's files.
fn unpacked(kernel: Kernel) -> Result<PathBuf> {
    let meta = kernel.meta_package();
    let depends = call("apt-cache", &["depends", meta], Path::new("."))?;
    let package = depends
        .lines()
        .find_map(|line| line.trim().strip_prefix("Depends: linux-image-"))
        .map(|rest| format!("linux-image-{rest}"))
        .with_context(|| format!("apt knows no kernel behind {meta}: labs need Debian"))?;
    let lab = target_folder().join("lab");
    let folder = lab.join(&package);
    if folder.is_dir() {
        return Ok(folder);
    }
    std::fs::create_dir_all(&lab)?;
    // Under another name until it is whole, so that a cut download is not taken for it.
    let part = tempfile::tempdir_in(&lab)?;
    call("apt-get", &["download", "-qq", &package], part.path())?;
    let archive = files(part.path())?.pop().context("apt-get left no file")?;
    let whole = part.path().join("whole");
    let (archive, into) = (archive.to_string_lossy(), whole.to_string_lossy());
    call("dpkg", &["-x", &archive, &into], part.path())?;
    std::fs::rename(&whole, &folder)?;
    Ok(folder)
}

/// Every file below a folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        // Links are left out: `lib/modules/*/source` may lead anywhere.
        match entry.file_type()? {
            kind if kind.is_dir() => found.extend(files(&entry.path())?),
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    Ok(found)
}

fn call(program: &str, arguments: &[&str], folder: &Path) -> Result<String> {
    let line = format!("{program} {}", arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .with_context(|| format!("starting `{line}`"))?;
    if !output.status.success() {
        bail!(
            "`{line}`: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
