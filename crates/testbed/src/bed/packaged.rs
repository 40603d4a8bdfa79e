//! Finds Debian programs for labs by their packages. Keeps them unpacked under `target/lab/`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::apt::{self, Apt, Bundle, DebianSuite};
use super::carried::{self, Carried};

/// Libraries that every machine already has, in the version that its other programs need.
const OF_EVERY_MACHINE: [&str; 2] = ["libc6", "libgcc-s1"];

/// A Debian program that a lab can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DebianProgram {
    /// cyclictest, which measures how late a periodic task wakes up.
    Cyclictest,
    /// stress-ng, which creates loads of many kinds.
    StressNg,
    /// Prometheus, which scrapes metrics and answers queries about them.
    Prometheus,
}

impl DebianProgram {
    /// Returns the name of the program's Debian package.
    pub fn package(self) -> &'static str {
        match self {
            DebianProgram::Cyclictest => "rt-tests",
            DebianProgram::StressNg => "stress-ng",
            DebianProgram::Prometheus => "prometheus",
        }
    }

    /// Returns the program's name. It is also the program's command in a lab.
    pub fn program(self) -> &'static str {
        match self {
            DebianProgram::Cyclictest => "cyclictest",
            DebianProgram::StressNg => "stress-ng",
            DebianProgram::Prometheus => "prometheus",
        }
    }

    /// Returns the folder on this machine into which the package's programs were unpacked. The
    /// package is not installed.
    ///
    /// # Errors
    /// If the package is not unpacked yet, and the mirror does not answer.
    pub fn programs(self) -> Result<PathBuf> {
        let folder = self.install().with_context(|| self.package())?;
        Ok(folder.join("usr/bin"))
    }

    /// Returns the program's package, the packages of its libraries, and the folder into which all
    /// of them are unpacked.
    pub(super) fn bundle(self, apt: &Apt) -> Result<Bundle> {
        let package = self.package();
        let mut packages = BTreeSet::from([package.to_owned()]);
        let folder = apt::kept().join(package);
        if !folder.is_dir() {
            for library in apt.depends(package)?.into_iter().filter(is_library) {
                packages.extend(
                    apt.depends_in_the_end(&library)?
                        .into_iter()
                        .filter(is_library),
                );
                packages.insert(library);
            }
        }
        Ok(Bundle {
            packages: packages.into_iter().collect(),
            folder,
        })
    }

    /// Returns the files that a lab carries for the program: the program and its libraries.
    pub(super) fn files(self) -> Result<Vec<Carried>> {
        let folder = self.install().with_context(|| self.package())?;
        let name = self.program();
        let program = folder.join("usr/bin").join(name);
        let mut files = carried::libraries(&program, &folder)?;
        files.push(Carried::new(&format!("/bin/{name}"), &program));
        Ok(files)
    }

    fn install(self) -> Result<PathBuf> {
        let apt = Apt::of(DebianSuite::Own)?;
        let unpacked = || {
            let bundle = self.bundle(&apt)?;
            apt.unpack(&bundle)?;
            anyhow::Ok(bundle.folder)
        };
        // A fresh machine has no package lists. The lists of a machine that was off for long are
        // old.
        unpacked().or_else(|missing| {
            apt.update()
                .with_context(|| format!("looking again, because {missing:#}"))?;
            unpacked()
        })
    }
}

/// Returns the files that a lab carries for all of these programs.
pub(super) fn files(packaged: &[DebianProgram]) -> Result<Vec<Carried>> {
    let files = packaged.iter().map(|it| it.files());
    Ok(files.collect::<Result<Vec<_>>>()?.concat())
}

fn is_library(package: &String) -> bool {
    package.starts_with("lib") && !OF_EVERY_MACHINE.contains(&&**package)
}
