//! Finds Debian's Xen by its meta package, because versions change: the hypervisor and the programs
//! of Dom0. Keeps them unpacked under `target/lab/`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::super::apt::{self, Apt, Bundle, DebianSuite};
use super::super::carried::{self, Carried};
use super::super::compressed::decompressed;

/// Meta package that depends on the current versions of all other packages of Xen.
pub(in super::super) const META: &str = "xen-system-amd64";
/// Beginnings of the names of the needed packages: the hypervisor, its programs, and their
/// libraries. The library libyajl is not part of Xen.
const NEEDED: [&str; 4] = ["xen-hypervisor-", "xen-utils-", "libxen", "libyajl"];
/// Programs of Dom0. `xentrace` records the hypervisor's events, and `xenalyze` evaluates them.
const PROGRAMS: [&str; 6] = [
    "xenstored",
    "xen-init-dom0",
    "xenconsoled",
    "xl",
    "xentrace",
    "xenalyze",
];

/// The unpacked Xen on this machine's disk.
#[derive(Debug)]
pub(super) struct Xen {
    folder: PathBuf,
    files: Vec<PathBuf>,
}

impl Xen {
    /// Returns the decompressed hypervisor, which QEMU can boot.
    pub(super) fn hypervisor(&self) -> Result<Vec<u8>> {
        let is_it = |path: &&PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("xen-") && name.ends_with(".gz"))
        };
        let boot = self.folder.join("boot");
        let mut files = self.files.iter().filter(|path| path.starts_with(&boot));
        let file = files.find(is_it).context("Xen without a hypervisor")?;
        decompressed(&std::fs::read(file)?)
    }

    /// Returns the folder in which Xen is unpacked.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns an unpacked file of this name. Its path in Dom0 is the path at which Xen's programs
    /// look for it.
    pub(super) fn file(&self, name: &str) -> Result<Carried> {
        let mut files = self.files.iter();
        let from = files.find(|path| path.ends_with(name));
        let from = from.with_context(|| format!("Xen without {name}"))?;
        Ok(Carried {
            inside: Path::new("/").join(from.strip_prefix(&self.folder)?),
            from: from.clone(),
        })
    }

    /// Returns the programs of Dom0 and their libraries.
    pub(super) fn programs(&self) -> Result<Vec<Carried>> {
        let mut all = BTreeMap::new();
        for name in PROGRAMS {
            let program = self.program(name)?;
            for library in carried::libraries(program, &self.folder)? {
                all.insert(library.inside, library.from);
            }
            all.insert(Path::new("/bin").join(name), program.to_owned());
        }
        // glibc loads this library when a thread ends, but no program lists the library.
        let unwinder = Path::new("/lib/x86_64-linux-gnu/libgcc_s.so.1");
        all.insert(unwinder.to_owned(), unwinder.to_owned());
        let files = all.into_iter();
        Ok(files
            .map(|(inside, from)| Carried { inside, from })
            .collect())
    }

    /// Returns the path of the program itself. Debian's script of the same name only selects a
    /// version.
    fn program(&self, name: &str) -> Result<&Path> {
        let is_it = |path: &&PathBuf| path.ends_with(Path::new("bin").join(name));
        let file = self.files.iter().find(is_it);
        Ok(file.with_context(|| format!("Xen without {name}"))?)
    }
}

/// Finds the current packages of Xen, and unpacks them if they are not unpacked yet.
pub(super) fn install() -> Result<Xen> {
    let apt = Apt::of(DebianSuite::Own)?;
    let bundle = match bundle(&apt) {
        Ok(bundle) => bundle,
        // A fresh machine has no package lists. The lists of a machine that was off for long are
        // old.
        Err(missing) => {
            apt.update()
                .with_context(|| format!("looking again, because {missing:#}"))?;
            self::bundle(&apt)?
        }
    };
    apt.unpack(&bundle)?;
    Ok(Xen {
        files: apt::files(&bundle.folder)?,
        folder: bundle.folder,
    })
}

/// Returns the needed packages on which the meta package depends, and the folder into which they
/// are unpacked.
pub(super) fn bundle(apt: &Apt) -> Result<Bundle> {
    let mut all: Vec<String> = apt.depends_in_the_end(META)?.into_iter().collect();
    all.retain(|package| NEEDED.iter().any(|name| package.starts_with(name)));
    let hypervisor = all.iter().find(|it| it.starts_with(NEEDED[0]));
    let hypervisor =
        hypervisor.with_context(|| format!("apt knows no hypervisor behind {META}"))?;
    let folder = apt::kept().join(hypervisor);
    Ok(Bundle {
        packages: all,
        folder,
    })
}
