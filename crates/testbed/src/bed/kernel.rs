//! Finds stock kernels of Debian by their meta packages, because versions change. Keeps the kernels
//! unpacked under `target/lab/`.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::apt::{self, Apt, Bundle, DebianSuite};
use super::bzimage;

/// A flavour of Debian's kernel for amd64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DebianKernel {
    /// The kernel for virtual machines: the smallest, and the quickest to boot.
    Cloud,
    /// The PREEMPT_RT kernel, which has the osnoise tracer.
    Rt,
    /// The kernel for every machine. Only this kernel can be Xen's Dom0.
    Plain,
}

impl DebianKernel {
    pub(super) fn meta_package(self) -> &'static str {
        match self {
            DebianKernel::Cloud => "linux-image-cloud-amd64",
            DebianKernel::Rt => "linux-image-rt-amd64",
            DebianKernel::Plain => "linux-image-amd64",
        }
    }

    /// Returns whether this kernel's meta package can depend on a package of this name, such as
    /// `linux-image-6.1.0-1-rt-amd64`.
    fn is_called(self, package: &str) -> bool {
        let flavour = self.meta_package().trim_start_matches("linux-image");
        let version = package.strip_prefix("linux-image-");
        let version = version.and_then(|rest| rest.strip_suffix(flavour));
        version.is_some_and(|version| version.ends_with(|last: char| last.is_ascii_digit()))
    }

    /// Returns the names of the modules that KVM on AMD needs, in loading order. The cloud kernel
    /// has no module `ccp`.
    fn modules(self) -> &'static [&'static str] {
        match self {
            DebianKernel::Cloud => &["irqbypass", "kvm", "kvm-amd"],
            DebianKernel::Rt | DebianKernel::Plain => &["irqbypass", "ccp", "kvm", "kvm-amd"],
        }
    }
}

/// Modules for QEMU's virtio devices, in loading order. Since Debian 13 the kernel has them built
/// in.
const VIRTIO: [&str; 5] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
];

/// Modules for a disk of QEMU, and for the ports of its virtio-serial device.
const GUEST: [&str; 2] = ["virtio_blk", "virtio_console"];

/// Modules for a network card and a bridge, in loading order.
const NETWORK: [&str; 6] = [
    "failover",
    "net_failover",
    "virtio_net",
    "llc",
    "stp",
    "bridge",
];

/// Modules with which a host's kernel serves the vsock device of a guest, in loading order.
const VHOST: [&str; 5] = [
    "vsock",
    "vmw_vsock_virtio_transport_common",
    "vhost_iotlb",
    "vhost",
    "vhost_vsock",
];

/// Modules with which Xen's programs in Dom0 reach the hypervisor, in loading order.
const DOM0: [&str; 5] = [
    "xen-evtchn",
    "xen-gntdev",
    "xen-gntalloc",
    "xen-privcmd",
    "xenfs",
];

/// An unpacked kernel on this machine's disk.
#[derive(Debug)]
pub(super) struct Image {
    /// Version of the kernel as `uname -r` prints it.
    pub version: String,
    pub vmlinuz: PathBuf,
    kernel: DebianKernel,
    files: Vec<PathBuf>,
}

impl Image {
    /// Returns the modules that KVM on AMD needs, in loading order.
    pub fn modules(&self) -> Result<Vec<PathBuf>> {
        let names = self.kernel.modules().iter();
        names.map(|name| self.module(name)).collect()
    }

    /// Returns the modules that a guest needs for its disk and its ports, in loading order.
    pub fn modules_of_guest(&self) -> Vec<PathBuf> {
        let names = VIRTIO.iter().chain(&GUEST);
        names.filter_map(|name| self.find(name)).collect()
    }

    /// Returns the modules that the network cards of a lab need, in loading order.
    pub fn modules_of_network(&self) -> Vec<PathBuf> {
        let names = VIRTIO.iter().chain(&NETWORK);
        names.filter_map(|name| self.find(name)).collect()
    }

    /// Returns the modules with which a host's kernel serves a guest's vsock device, in loading
    /// order.
    pub fn modules_of_vhost(&self) -> Result<Vec<PathBuf>> {
        VHOST.iter().map(|name| self.module(name)).collect()
    }

    /// Returns the modules that a Dom0 of Xen needs, in loading order.
    pub fn modules_of_dom0(&self) -> Result<Vec<PathBuf>> {
        DOM0.iter().map(|name| self.module(name)).collect()
    }

    /// Returns the path of a module. A file that ends in `.xz` is compressed. Since Debian 13, all
    /// modules are compressed.
    pub fn module(&self, name: &str) -> Result<PathBuf> {
        self.find(name)
            .with_context(|| format!("Linux {} has no module {name}", self.version))
    }

    /// Returns the path of the uncompressed kernel, which is kept next to the compressed kernel.
    pub fn vmlinux(&self) -> Result<PathBuf> {
        let folder = self.vmlinuz.parent().context("a kernel in no folder")?;
        let unpacked = folder.join("vmlinux");
        if !unpacked.is_file() {
            // Other labs may look for this file now, so the file gets its name when it is complete.
            let mut whole = tempfile::NamedTempFile::new_in(folder)?;
            whole.write_all(&bzimage::vmlinux(&self.vmlinuz)?)?;
            let file = whole.as_file();
            file.set_permissions(Permissions::from_mode(0o644))?;
            file.sync_all()?;
            whole.persist(&unpacked)?;
        }
        Ok(unpacked)
    }

    fn find(&self, name: &str) -> Option<PathBuf> {
        let names = [format!("{name}.ko"), format!("{name}.ko.xz")];
        let mut files = self.files.iter();
        let file = files.find(|path| names.iter().any(|name| path.ends_with(name)));
        file.cloned()
    }
}

/// Finds the kernel's current package, and unpacks the package if it is not unpacked yet.
pub(super) fn install(kernel: DebianKernel, suite: DebianSuite) -> Result<Image> {
    let apt = Apt::of(suite)?;
    let unpacked = || {
        let bundle = bundle(kernel, &apt)?;
        apt.unpack(&bundle)?;
        anyhow::Ok(bundle.folder)
    };
    let folder = match unpacked() {
        Ok(folder) => folder,
        Err(_) if !apt::is_here() => kept(kernel)?,
        // A fresh machine has no package lists. The lists of a machine that was off for long are
        // old.
        Err(missing) => {
            apt.update()
                .with_context(|| format!("looking again, because {missing:#}"))?;
            unpacked()?
        }
    };
    let files = apt::files(&folder)?;
    let (vmlinuz, version) = files
        .iter()
        .find_map(|path| Some((path.clone(), version(path)?.to_owned())))
        .with_context(|| format!("{} has no vmlinuz", folder.display()))?;
    Ok(Image {
        version,
        vmlinuz,
        kernel,
        files,
    })
}

/// Returns the version in the path of a kernel: `boot/vmlinuz-VERSION`, or
/// `usr/lib/modules/VERSION/vmlinuz` since 7.3.
fn version(path: &Path) -> Option<&str> {
    match path.file_name()?.to_str()?.strip_prefix("vmlinuz")? {
        "" => path.parent()?.file_name()?.to_str(),
        version => version.strip_prefix('-'),
    }
}

/// Returns the folder of a kernel that was copied to a machine without apt.
fn kept(kernel: DebianKernel) -> Result<PathBuf> {
    let place = apt::kept();
    let entries = std::fs::read_dir(&place).into_iter().flatten().flatten();
    let of_kind = entries.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| kernel.is_called(name))
    });
    let meta = kernel.meta_package();
    let folders: Vec<PathBuf> = of_kind.collect();
    let [folder] = &folders[..] else {
        bail!(
            "there is no apt here, and {} packages behind {meta} are unpacked in {}: bring one from a Debian machine",
            folders.len(),
            place.display()
        );
    };
    Ok(folder.clone())
}

/// Returns the current packages of a kernel, and the folder into which they are unpacked.
pub(super) fn bundle(kernel: DebianKernel, apt: &Apt) -> Result<Bundle> {
    let meta = kernel.meta_package();
    let mut packages = apt.depends(meta)?;
    packages.retain(|package| package.starts_with("linux-image-"));
    let image = packages
        .first()
        .with_context(|| format!("apt knows no kernel behind {meta}: labs need Debian"))?;
    let folder = apt::kept().join(image);
    if !folder.is_dir() {
        // Since 7.3 the image package is empty, and depends on the packages with the files.
        let mut parts = apt.depends(image)?;
        parts
            .retain(|part| part.starts_with("linux-binary-") || part.starts_with("linux-modules-"));
        packages.extend(parts);
    }
    Ok(Bundle { packages, folder })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_of_one_kind() {
        let kinds = [DebianKernel::Cloud, DebianKernel::Rt, DebianKernel::Plain];
        for (package, kind) in [
            ("linux-image-6.1.0-56-cloud-amd64", DebianKernel::Cloud),
            ("linux-image-6.12.107+deb13-rt-amd64", DebianKernel::Rt),
            ("linux-image-6.1.0-56-amd64", DebianKernel::Plain),
        ] {
            let is = kinds.into_iter().filter(|it| it.is_called(package));
            assert_eq!(is.collect::<Vec<_>>(), [kind], "{package}");
        }
    }

    #[test]
    fn a_kernel_lies_in_one_of_two_places() {
        let boot = Path::new("boot/vmlinuz-6.1.0-1-amd64");
        assert_eq!(version(boot), Some("6.1.0-1-amd64"));
        let modules = Path::new("usr/lib/modules/7.3.4-amd64");
        assert_eq!(version(&modules.join("vmlinuz")), Some("7.3.4-amd64"));
        assert_eq!(version(&modules.join("kernel/kvm.ko.xz")), None);
    }
}
