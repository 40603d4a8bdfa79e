//! Writes the only file system of a lab: an init process, programs, kernel modules, and commands.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cpio::newc;
use object::Object;

use super::apt::call;
use super::carried::Carried;
use super::compressed::decompressed;
use super::inside;
use crate::run::LAB_PROGRAMS;

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const PLAIN: u32 = 0o100_644;
const LINK: u32 = 0o120_777;

/// End of the file name of a compressed module.
const COMPRESSED: &str = ".xz";

/// Folders on which the init process mounts file systems.
const MOUNT_POINTS: [&str; 4] = ["proc", "sys", "dev", "tmp"];

/// Contents of an initramfs.
#[derive(Debug)]
pub(super) struct Contents<'a> {
    /// Kernel modules, in loading order.
    pub modules: &'a [PathBuf],
    pub programs: &'a [PathBuf],
    pub carried: &'a [Carried],
    pub commands: &'a [&'a str],
    /// Device to which the machine writes the results of its commands.
    pub results: &'a str,
}

/// Writes the initramfs as an uncompressed `newc` archive
/// (Documentation/driver-api/early-userspace/buffer-format.rst).
pub(super) fn write(path: &Path, contents: &Contents<'_>) -> Result<()> {
    let mut archive = Archive {
        folders: BTreeSet::new(),
        out: BufWriter::new(File::create(path).with_context(|| path.display().to_string())?),
    };
    for folder in MOUNT_POINTS.iter().chain(&["bin", "lab"]) {
        archive.entry(folder, FOLDER, &[])?;
    }
    let shared = crate::run::lab_program(LAB_PROGRAMS)?;
    let inside = format!("bin/{LAB_PROGRAMS}");
    archive.entry(&inside, PROGRAM, &stripped(&shared)?)?;
    archive.entry("init", LINK, inside.as_bytes())?;
    for program in contents.programs {
        let inside = format!("bin/{}", name(program)?);
        if std::fs::read_link(program).is_ok_and(|to| to == Path::new(LAB_PROGRAMS)) {
            archive.entry(&inside, LINK, LAB_PROGRAMS.as_bytes())?;
        } else {
            archive.entry(&inside, PROGRAM, &stripped(program)?)?;
        }
    }
    for file in contents.carried {
        archive.carry(file)?;
    }
    let mut order = String::new();
    for module in contents.modules {
        let file = name(module)?;
        let inside = format!("lab/{}", file.trim_end_matches(COMPRESSED));
        if file.ends_with(COMPRESSED) {
            // Some kernels cannot decompress modules (CONFIG_MODULE_DECOMPRESS).
            archive.entry(&inside, PLAIN, &decompressed(&std::fs::read(module)?)?)?;
        } else {
            archive.copy(&inside, PLAIN, module)?;
        }
        order += &format!("/{inside}\n");
    }
    archive.entry(&inside::MODULES[1..], PLAIN, order.as_bytes())?;
    let commands = contents.commands.join("\n");
    archive.entry(&inside::COMMANDS[1..], PLAIN, commands.as_bytes())?;
    archive.entry(&inside::RESULTS[1..], LINK, contents.results.as_bytes())?;
    newc::trailer(archive.out)?.flush()?;
    Ok(())
}

/// Returns a program without its debug sections. They are four fifths of the program, and an
/// emulated machine copies slowly. Returns scripts and the lab's own programs unchanged, because
/// they have no debug sections.
fn stripped(program: &Path) -> Result<Vec<u8>> {
    let whole = std::fs::read(program).with_context(|| program.display().to_string())?;
    let program_file = object::File::parse(&*whole);
    if !program_file.is_ok_and(|file| file.section_by_name(".debug_info").is_some()) {
        return Ok(whole);
    }
    let out = tempfile::NamedTempFile::new()?;
    let to = out.path().to_string_lossy();
    let from = program.to_string_lossy();
    call(
        "strip",
        &["--strip-debug", "-o", &to, &from],
        Path::new("."),
    )?;
    std::fs::read(out.path()).context("what strip (package binutils) wrote")
}

struct Archive {
    /// Folders created so far for carried files.
    folders: BTreeSet<PathBuf>,
    out: BufWriter<File>,
}

impl Archive {
    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) -> Result<()> {
        let size = u32::try_from(content.len()).with_context(|| format!("{name} is too large"))?;
        let mut entry = newc::Builder::new(name)
            .mode(mode)
            .write(&mut self.out, size);
        entry.write_all(content)?;
        entry.finish()?;
        Ok(())
    }

    /// Adds a file, and creates its parent directories as needed.
    fn carry(&mut self, file: &Carried) -> Result<()> {
        let inside = file.inside.strip_prefix("/")?;
        let mut folders: Vec<&Path> = inside.ancestors().skip(1).collect();
        folders.pop();
        for folder in folders.into_iter().rev() {
            if self.folders.insert(folder.to_owned()) {
                self.entry(&folder.to_string_lossy(), FOLDER, &[])?;
            }
        }
        self.copy(&inside.to_string_lossy(), PROGRAM, &file.from)
    }

    fn copy(&mut self, name: &str, mode: u32, from: &Path) -> Result<()> {
        let content = std::fs::read(from).with_context(|| from.display().to_string())?;
        self.entry(name, mode, &content)
    }
}

fn name(path: &Path) -> Result<&str> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.with_context(|| format!("{} has no plain name", path.display()))
}
