//! Programs of this machine that are not static, taken along into a lab.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// What a command of such a program begins with, before `/bin/PROGRAM`: its loader finds
/// what it needs beside it.
pub const LOADER: &str = "ld-linux-x86-64.so.2 --library-path /bin";

/// Whether this machine has a program of this name, where it looks for them.
pub fn is_here(program: &str) -> bool {
    let places = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&places).any(|place| place.join(program).is_file())
}

/// A program in `/usr/bin` with its libraries and their loader.
///
/// # Errors
/// If it is not installed: it is in this package.
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
