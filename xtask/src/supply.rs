//! What others wrote and we build: its licences and sources, what is known against it, what was
//! taken back by whoever published it, and whether a file of theirs is theirs.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::abilities::{Ability, installed};
use crate::oracle::{CARGO_DENY, PYTHON_PACKAGES};
use crate::{cargo, lock, npm};

/// The charts' library, as it lies here.
const CHARTS: &str = "crates/report/library/plotly-cartesian.min.js.gz";
/// A package that depends on exactly what Cargo.lock names.
const PINNED: &str = "target/pinned";

type Check = fn() -> Result<Ability>;

/// The checks by their names: whether each could be made, and an error where it finds something.
pub const CHECKS: [(&str, Check); 4] = [
    ("supply::licences_bans_and_sources", policy),
    ("supply::advisories", advisories),
    ("supply::yanked", yanked),
    ("supply::charts", charts),
];

/// By `deny.toml`.
fn policy() -> Result<Ability> {
    if let Err(reason) = installed(&[CARGO_DENY]) {
        return Ok(Err(reason));
    }
    let (passes, said) = reported(deny().args(["licenses", "bans", "sources"]))?;
    ensure!(passes, "cargo deny: {said}");
    Ok(Ok(()))
}

fn advisories() -> Result<Ability> {
    if let Err(reason) = installed(&[CARGO_DENY]) {
        return Ok(Err(reason));
    }
    let (passes, said) = reported(deny().arg("advisories"))?;
    if said.contains("failed to fetch advisory database") {
        let reason = said.lines().last().unwrap_or_default();
        return Ok(Err(format!("the advisories cannot be had: {reason}")));
    }
    ensure!(passes, "cargo deny: {said}");
    Ok(Ok(()))
}

/// cargo-deny reports yanked versions only where it has the advisories. Cargo's resolver does
/// anywhere: without a lock file it takes none.
fn yanked() -> Result<Ability> {
    let mut manifest = String::from(
        "[package]\nname = \"pinned\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [lib]\npath = \"/dev/null\"\n[workspace]\n[dependencies]\n",
    );
    for (number, package) in lock::packages()?.iter().enumerate() {
        let name = &package.name;
        // What follows a + is no part of a requirement.
        let version = package.version.split('+').next().unwrap_or_default();
        writeln!(
            manifest,
            "d{number} = {{ package = \"{name}\", version = \"={version}\", default-features = false }}"
        )?;
    }
    let file = Path::new(PINNED).join("Cargo.toml");
    fs::create_dir_all(PINNED)?;
    fs::write(&file, manifest)?;
    let resolve = ["generate-lockfile", "--quiet", "--manifest-path"];
    let (passes, said) = reported(Command::new(cargo()).args(resolve).arg(&file))?;
    if passes {
        return Ok(Ok(()));
    }
    if said.contains(" is yanked") {
        bail!("Cargo.lock names a version that was yanked: cargo update it. {said}");
    }
    let reason = said.lines().last().unwrap_or_default();
    Ok(Err(format!("cargo cannot ask the registry: {reason}")))
}

/// The charts' library that the page carries is npm's, to the last byte.
fn charts() -> Result<Ability> {
    let theirs = match npm::CHARTS.install() {
        Ok(file) => fs::read(file)?,
        Err(error) => return Ok(Err(format!("{error:#}"))),
    };
    let ours = npm::said_by(Command::new("gzip").args(["-dc", CHARTS]))?;
    ensure!(ours == theirs, "{CHARTS} is not what npm has");
    Ok(Ok(()))
}

fn deny() -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut deny = Command::new(cargo());
    deny.env("PATH", format!("{PYTHON_PACKAGES}/bin:{path}"))
        .args(["deny", "--locked", "check", "--hide-inclusion-graph"]);
    deny
}

/// Whether a command passes, and what it says on stderr.
fn reported(command: &mut Command) -> Result<(bool, String)> {
    let output = command
        .output()
        .with_context(|| format!("starting {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Ok((output.status.success(), said))
}
