//! Fetches Debian packages with apt. For the machine's own suite, apt uses the machine's
//! configuration. For another suite, apt uses a configuration of its own, and the machine's stays
//! unchanged.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::run::target_folder;

/// Keyring of Debian's archive. Older systems already have the keys that sign newer suites.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Program of apt that fetches one file. apt's own scripts use it.
const HELPER: &str = "/usr/lib/apt/apt-helper";

/// Debian release that a kernel or an emulator comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DebianSuite {
    /// The suite of the machine that runs the lab.
    Own,
    /// Newer software built for Debian 12: Linux 6.12, QEMU 10.
    BookwormBackports,
    /// Debian 13: Linux 6.12.
    Trixie,
    /// Newer software built for Debian 13: a recent Linux.
    TrixieBackports,
}

impl DebianSuite {
    /// All suites.
    pub const ALL: [DebianSuite; 4] = [
        DebianSuite::Own,
        DebianSuite::BookwormBackports,
        DebianSuite::Trixie,
        DebianSuite::TrixieBackports,
    ];

    /// Checks that the mirror has this suite, by fetching the suite's package lists.
    ///
    /// # Errors
    /// If the mirror does not answer, or has no such suite.
    pub fn reach(self) -> Result<()> {
        Apt::of(self)?.update()
    }

    /// Returns Debian's name of the suite; `None` for the machine's own.
    pub fn name(self) -> Option<&'static str> {
        match self {
            DebianSuite::Own => None,
            DebianSuite::BookwormBackports => Some("bookworm-backports"),
            DebianSuite::Trixie => Some("trixie"),
            DebianSuite::TrixieBackports => Some("trixie-backports"),
        }
    }
}

/// Packages that are unpacked into one folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bundle {
    pub packages: Vec<String>,
    pub folder: PathBuf,
}

impl Bundle {
    pub fn is_here(&self) -> bool {
        self.folder.is_dir()
    }
}

/// apt, set up for one suite.
#[derive(Debug)]
pub(super) struct Apt {
    options: Vec<String>,
}

impl Apt {
    /// Returns apt with the machine's own configuration.
    fn own() -> Apt {
        Apt {
            options: Vec::new(),
        }
    }

    /// Returns apt for this suite. It uses the same mirror as the machine.
    pub(super) fn of(suite: DebianSuite) -> Result<Apt> {
        let Some(name) = suite.name() else {
            return Ok(Apt::own());
        };
        let folder = kept().join("apt").join(name);
        for list in ["lists/partial", "cache/archives/partial"] {
            std::fs::create_dir_all(folder.join(list))?;
        }
        let path = |file: &str| folder.join(file).display().to_string();
        let mirror = mirror()?;
        let source = format!("deb [signed-by={KEYRING} target=Packages] {mirror} {name} main\n");
        std::fs::write(folder.join("sources.list"), source)?;
        std::fs::write(folder.join("status"), "")?;
        let options = [
            ("Dir::Etc::SourceList", path("sources.list")),
            ("Dir::Etc::SourceParts", "/dev/null".into()),
            ("Dir::Etc::PreferencesParts", "/dev/null".into()),
            ("Dir::State::Lists", path("lists")),
            ("Dir::State::Status", path("status")),
            ("Dir::Cache", path("cache")),
        ];
        Ok(Apt {
            options: options
                .into_iter()
                .map(|(option, value)| format!("--option={option}={value}"))
                .collect(),
        })
    }

    /// Fetches the lists of packages.
    pub(super) fn update(&self) -> Result<()> {
        // By default apt only warns if a mirror does not answer. This option makes that an error.
        let strict = "--option=APT::Update::Error-Mode=any";
        let _alone = alone()?;
        self.call("apt-get", &["update", "-qq", strict], Path::new("."))?;
        Ok(())
    }

    /// Returns the names of the packages that this package directly depends on.
    pub(super) fn depends(&self, package: &str) -> Result<Vec<String>> {
        self.depending(&["depends", package])
    }

    /// Returns the names of all packages that this package depends on, directly or indirectly.
    pub(super) fn depends_in_the_end(&self, package: &str) -> Result<BTreeSet<String>> {
        let all = self.depending(&["depends", "--recurse", "--important", package])?;
        Ok(all.into_iter().collect())
    }

    fn depending(&self, arguments: &[&str]) -> Result<Vec<String>> {
        let text = self.call("apt-cache", arguments, Path::new("."))?;
        Ok(text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Depends: "))
            .map(str::to_owned)
            .collect())
    }

    /// Returns the disk space in bytes that these packages need, as archives and unpacked.
    pub(super) fn size(&self, packages: &[String]) -> Result<u64> {
        let mut arguments = vec!["show", "--no-all-versions"];
        arguments.extend(packages.iter().map(String::as_str));
        Ok(sizes(&self.call(
            "apt-cache",
            &arguments,
            Path::new("."),
        )?))
    }

    /// Unpacks packages into their folder, unless the folder exists already.
    pub(super) fn unpack(&self, bundle: &Bundle) -> Result<()> {
        let Bundle { packages, folder } = bundle;
        if bundle.is_here() {
            return Ok(());
        }
        let _alone = alone()?;
        if bundle.is_here() {
            return Ok(());
        }
        // The folder gets its final name when it is complete, so an interrupted download never
        // counts as complete.
        let part = tempfile::tempdir_in(kept())?;
        let mut arguments = vec!["download", "-qq"];
        arguments.extend(packages.iter().map(String::as_str));
        self.call("apt-get", &arguments, part.path())?;
        let whole = part.path().join("whole");
        let into = whole.to_string_lossy();
        for archive in files(part.path())? {
            call(
                "dpkg",
                &["-x", &archive.to_string_lossy(), &into],
                part.path(),
            )?;
        }
        std::fs::rename(&whole, folder)?;
        Ok(())
    }

    fn call(&self, program: &str, arguments: &[&str], folder: &Path) -> Result<String> {
        let mut all: Vec<&str> = self.options.iter().map(String::as_str).collect();
        all.extend(arguments);
        call(program, &all, folder)
    }
}

/// Returns whether this machine has apt.
pub(super) fn is_here() -> bool {
    call("apt-cache", &["--version"], Path::new(".")).is_ok()
}

/// Returns the folder in which labs keep all files that they fetch.
pub(super) fn kept() -> PathBuf {
    target_folder().join("lab")
}

/// Takes the lock that each lab holds while it fetches, because several labs may run at the same
/// time.
fn alone() -> Result<File> {
    std::fs::create_dir_all(kept())?;
    let lock = File::create(kept().join("lock"))?;
    lock.lock()?;
    Ok(lock)
}

/// Returns the address of the mirror that the machine uses for Debian itself, without updates.
fn mirror() -> Result<String> {
    let find = || -> Result<String> {
        let targets = [
            "indextargets",
            "--format",
            "$(ORIGIN) $(CODENAME) $(REPO_URI)",
            "Created-By: Packages",
        ];
        let text = call("apt-get", &targets, Path::new("."))?;
        text.lines()
            .find_map(debian_itself)
            .map(str::to_owned)
            .context("apt knows no mirror of Debian: labs need Debian")
    };
    // apt reports only mirrors whose package lists it has. A fresh machine has no lists.
    find().or_else(|_| Apt::own().update().and_then(|()| find()))
}

/// Fetches one file from the mirror in the same way as `apt-get download`, and deletes the file.
pub(super) fn reach() -> Result<()> {
    let folder = tempfile::tempdir().context("a folder for what is fetched")?;
    let targets = [
        "indextargets",
        "--format",
        "$(BASE_URI)",
        "Created-By: Packages",
    ];
    let text = call("apt-get", &targets, Path::new("."))?;
    let base = text
        .lines()
        .next()
        .context("apt has no list of packages: run `apt-get update`")?;
    let address = format!("{base}InRelease");
    let patience = [
        "--option=Acquire::Retries=0",
        "--option=Acquire::http::Timeout=10",
    ];
    let fetch = ["download-file", &address, "InRelease"];
    match call(HELPER, &[&patience[..], &fetch].concat(), folder.path()) {
        Ok(_) => Ok(()),
        Err(error) => bail!("{}", complaint(&format!("{error:#}"))),
    }
}

/// Returns the first of apt's errors, without the warnings around it.
fn complaint(said: &str) -> &str {
    let mut errors = said.lines().filter_map(|line| line.strip_prefix("E: "));
    errors.next().unwrap_or(said)
}

/// Sums `Size: ` (bytes) and `Installed-Size: ` (KiB) of all packages (deb-control(5)).
fn sizes(packages: &str) -> u64 {
    let sum = |field: &str| -> u64 {
        let lines = packages.lines().filter_map(|line| line.strip_prefix(field));
        lines
            .filter_map(|size| size.trim().parse::<u64>().ok())
            .sum()
    };
    sum("Size:") + 1024 * sum("Installed-Size:")
}

/// Parses `ORIGIN CODENAME ADDRESS`. Returns the address if the line is for Debian itself.
fn debian_itself(line: &str) -> Option<&str> {
    let (codename, address) = line.strip_prefix("Debian ")?.split_once(' ')?;
    (!codename.contains('-')).then_some(address)
}

/// Returns every file below a folder.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
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

/// Runs a program in a folder, and returns its stdout.
pub(super) fn call(program: &str, arguments: &[&str], folder: &Path) -> Result<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_apt_says_the_error_counts() {
        let said = "`apt-helper`: W: Download is performed unsandboxed\nE: Failed to fetch it\nE: Download Failed";
        assert_eq!(complaint(said), "Failed to fetch it");
        assert_eq!(complaint("no apt-helper"), "no apt-helper");
    }

    #[test]
    fn a_package_is_on_the_disk_twice_while_it_is_unpacked() {
        let shown = "Package: a\nInstalled-Size: 2\nSize: 300\n\nPackage: b\nSize: 4\n";
        assert_eq!(sizes(shown), 2 * 1024 + 300 + 4);
        assert_eq!(sizes(""), 0);
    }

    #[test]
    fn debian_comes_from_where_the_machine_gets_it() {
        let address = "http://deb.debian.org/debian/";
        assert_eq!(
            debian_itself(&format!("Debian bookworm {address}")),
            Some(address)
        );
        for other in [
            "Debian bookworm-updates http://deb.debian.org/debian/",
            "Debian bookworm-security http://deb.debian.org/debian-security/",
            "Node Source nodistro https://deb.nodesource.com/node_20.x/",
        ] {
            assert_eq!(debian_itself(other), None);
        }
    }
}
