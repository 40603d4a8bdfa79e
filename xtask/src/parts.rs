//! Lists the parts of the static binary: crates, other code in crates, and system libraries.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use cargo_metadata::{Metadata, MetadataCommand, Package};

use crate::{cargo, lock};

/// System libraries that the linker puts into the binary: name, archive and licence. The licences
/// come from the copyright files of the Debian packages.
const LIBRARIES: [(&str, &str, &str); 4] = [
    (
        "libelf",
        "libelf.a",
        "GPL-2.0-or-later OR LGPL-3.0-or-later",
    ),
    ("zlib", "libz.a", "Zlib"),
    ("glibc", "libc.a", "LGPL-2.1-or-later"),
    (
        "libgcc",
        "libgcc_eh.a",
        "GPL-3.0-or-later WITH GCC-exception-3.1",
    ),
];

/// Code of other projects in crates. The fields are: crate, name, registry, licence, folder of the
/// licence texts, and the file and the words before the version.
const CARRIED: [Carried; 2] = [
    Carried {
        crate_name: "libbpf-sys",
        name: "libbpf",
        registry: "generic",
        licence: "LGPL-2.1-only OR BSD-2-Clause",
        texts: "libbpf",
        version: ("Cargo.toml", "+v"),
    },
    Carried {
        crate_name: "vmnoise-report",
        name: "plotly.js-cartesian-dist-min",
        registry: "npm",
        licence: "MIT",
        texts: "library",
        version: ("src/library.rs", "plotly.js-cartesian-dist-min@"),
    },
];

struct Carried {
    crate_name: &'static str,
    name: &'static str,
    registry: &'static str,
    licence: &'static str,
    texts: &'static str,
    version: (&'static str, &'static str),
}

/// A part of the binary, with its licence and origin.
#[derive(Debug)]
pub struct Part {
    pub name: String,
    pub version: String,
    /// Licence of the part, as an SPDX expression.
    pub licence: String,
    /// Origin of the part, as a package URL.
    pub purl: String,
    /// SHA-256 of the crate's archive; `None` for parts that are no crates.
    pub sha256: Option<String>,
    /// Licence texts that came with the part.
    pub texts: Vec<PathBuf>,
}

/// Returns all parts of the binary. The first one is vmnoise itself.
pub fn all() -> Result<Vec<Part>> {
    let metadata = MetadataCommand::new()
        .other_options(vec!["--locked".to_owned()])
        .exec()?;
    let mut parts = crates(&metadata)?;
    for carried in &CARRIED {
        parts.push(carried.found(&metadata)?);
    }
    for (name, archive, licence) in LIBRARIES {
        parts.push(library(name, archive, licence)?);
    }
    parts.push(standard_library()?);
    parts.push(bpf_programs(&parts[0].version));
    Ok(parts)
}

/// Returns the crates that are linked into the binary. Macros and build scripts are left out.
fn crates(metadata: &Metadata) -> Result<Vec<Part>> {
    let tree = ["tree", "--locked", "--package=vmnoise", "--prefix=none"];
    let edges = ["--edges=normal,no-proc-macro", "--format={p}"];
    let listed = said_by(Command::new(cargo()).args(tree).args(edges))?;
    let locked = lock::packages()?;
    let mut seen = BTreeSet::new();
    let mut parts = Vec::new();
    for line in listed.lines() {
        let mut words = line.split(' ');
        let (Some(name), Some(version)) = (words.next(), words.next()) else {
            continue;
        };
        let version = version.trim_start_matches('v');
        if !seen.insert((name, version)) {
            continue;
        }
        let package = package(metadata, name, version)?;
        let mut locked = locked.iter();
        let locked = locked.find(|it| it.name == name && it.version == version);
        parts.push(Part {
            name: name.to_owned(),
            version: version.to_owned(),
            licence: licence(package)?,
            purl: format!("pkg:cargo/{name}@{}", version.replace('+', "%2B")),
            sha256: locked.map(|it| it.checksum.clone()),
            texts: texts(folder(package)),
        });
    }
    Ok(parts)
}

fn package<'a>(metadata: &'a Metadata, name: &str, version: &str) -> Result<&'a Package> {
    let mut packages = metadata.packages.iter();
    let found = packages.find(|it| {
        it.name.as_str() == name && (version.is_empty() || it.version.to_string() == version)
    });
    found.with_context(|| format!("cargo metadata does not know {name} {version}"))
}

/// Returns the licence of a crate as an SPDX expression. Old crates use a slash instead of `OR`.
fn licence(package: &Package) -> Result<String> {
    let licence = package.license.as_deref();
    let licence = licence.with_context(|| format!("{} names no licence", package.name))?;
    Ok(licence.replace('/', " OR "))
}

fn folder(package: &Package) -> &Path {
    let manifest = package.manifest_path.as_std_path();
    manifest.parent().unwrap_or(manifest)
}

/// Returns the files in a folder whose names are usual for licence texts.
fn texts(folder: &Path) -> Vec<PathBuf> {
    const NAMES: [&str; 5] = ["license", "licence", "copying", "notice", "unlicense"];
    let is_one = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.to_lowercase();
        path.is_file() && NAMES.iter().any(|it| name.starts_with(it))
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|it| it.path()).filter(is_one).collect();
    found.sort();
    found
}

impl Carried {
    fn found(&self, metadata: &Metadata) -> Result<Part> {
        let package = package(metadata, self.crate_name, "")?;
        let folder = folder(package);
        let (file, before) = self.version;
        let text = fs::read_to_string(folder.join(file))?;
        let after = text.split(before).nth(1);
        let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
        let version = after.map(|it| it.split(|c| !is_number(c)).next().unwrap_or_default());
        let version = version.map(|it| it.trim_end_matches('.'));
        let version = version.filter(|it| !it.is_empty());
        let version = version.with_context(|| format!("no version of {} in {file}", self.name))?;
        Ok(Part {
            name: self.name.to_owned(),
            version: version.to_owned(),
            licence: self.licence.to_owned(),
            purl: format!("pkg:{}/{}@{version}", self.registry, self.name),
            sha256: None,
            texts: texts(&folder.join(self.texts)),
        })
    }
}

/// Returns a system library: the archive that the linker uses, and the Debian package that owns it.
fn library(name: &str, archive: &str, licence: &str) -> Result<Part> {
    let path = said_by(Command::new("cc").arg(format!("-print-file-name={archive}")))?;
    let path = fs::canonicalize(path.trim()).with_context(|| format!("cc knows no {archive}"))?;
    let owner = said_by(Command::new("dpkg-query").arg("--search").arg(&path))?;
    let package = owner.split(':').next().unwrap_or_default();
    let query = ["--show", "--showformat=${Version}\n", package];
    let versions = said_by(Command::new("dpkg-query").args(query))?;
    let version = versions
        .lines()
        .next()
        .context("dpkg-query prints no version")?;
    Ok(Part {
        name: name.to_owned(),
        version: version.to_owned(),
        licence: licence.to_owned(),
        purl: format!(
            "pkg:deb/debian/{package}@{}",
            version.replace(':', "%3A").replace('+', "%2B")
        ),
        sha256: None,
        texts: with_general_texts(format!("/usr/share/doc/{package}/copyright").into())?,
    })
}

/// Returns a Debian copyright file, and the licence texts to which it refers.
fn with_general_texts(copyright: PathBuf) -> Result<Vec<PathBuf>> {
    const GENERAL: &str = "/usr/share/common-licenses/";
    let text = fs::read(&copyright).with_context(|| copyright.display().to_string())?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-.".contains(letter);
    let names = text.split(GENERAL).skip(1);
    let names = names.map(|rest| {
        rest.split(|letter| !is_name(letter))
            .next()
            .unwrap_or_default()
    });
    let names: BTreeSet<&str> = names.map(|name| name.trim_end_matches('.')).collect();
    let general = names.iter().map(|name| Path::new(GENERAL).join(name));
    let general = general.filter(|path| path.is_file());
    Ok([copyright].into_iter().chain(general).collect())
}

fn standard_library() -> Result<Part> {
    let version = said_by(Command::new("rustc").arg("--version"))?;
    let version = version
        .split(' ')
        .nth(1)
        .context("rustc prints no version")?;
    Ok(Part {
        name: "rust-std".to_owned(),
        version: version.to_owned(),
        licence: "MIT OR Apache-2.0".to_owned(),
        purl: format!("pkg:generic/rust-std@{version}"),
        sha256: None,
        texts: Vec::new(),
    })
}

/// Returns the part with vmnoise's BPF programs, which have their own licences (LICENSE).
fn bpf_programs(version: &str) -> Part {
    Part {
        name: "vmnoise-bpf".to_owned(),
        version: version.to_owned(),
        licence: "GPL-2.0-only OR BSD-2-Clause".to_owned(),
        purl: format!("pkg:generic/vmnoise-bpf@{version}"),
        sha256: None,
        texts: Vec::new(),
    }
}

/// Runs a program, and returns its stdout. Fails if the program fails.
fn said_by(command: &mut Command) -> Result<String> {
    let output = command.output();
    let output = output.with_context(|| format!("starting {command:?}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}", error.trim());
    Ok(String::from_utf8(output.stdout)?)
}
