//! Finds dynamically linked programs of this machine and their libraries, so that a lab can carry
//! both.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Start of a lab command that runs a dynamically linked program; `/bin/PROGRAM` follows. With
/// these words the loader finds the program's libraries in `/bin`.
pub const LOADER: &str = "ld-linux-x86-64.so.2 --library-path /bin";

/// Returns whether this machine has a program of this name in its PATH.
pub fn is_here(program: &str) -> bool {
    let places = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&places).any(|place| place.join(program).is_file())
}

/// Returns the paths of a program in `/usr/bin`, of its libraries, and of their loader.
///
/// # Errors
/// If the program is not installed. The error names the Debian package.
pub fn with_libraries(program: &str, package: &str) -> Result<Vec<PathBuf>> {
    let path = format!("/usr/bin/{program}");
    let ldd = Command::new("ldd").arg(&path).output().context("ldd")?;
    ensure!(ldd.status.success(), "no {path}: install {package}");
    let needed = String::from_utf8(ldd.stdout)?;
    let libraries = needed
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    Ok(libraries.chain([&*path]).map(PathBuf::from).collect())
}
