//! Takes dynamically linked programs of this machine into a lab.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Start of such a program's command, before `/bin/PROGRAM`: its loader finds the libraries next to
/// it.
pub const LOADER: &str = "ld-linux-x86-64.so.2 --library-path /bin";

/// Returns whether this machine has a program of this name in its PATH.
pub fn is_here(program: &str) -> bool {
    let places = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&places).any(|place| place.join(program).is_file())
}

/// Returns a program in `/usr/bin` with its libraries and their loader.
///
/// # Errors
/// If it is not installed; the error names its package.
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
