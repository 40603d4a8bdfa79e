//! Checks dependencies: licences, sources, known vulnerabilities and yanked versions. Also checks
//! that a copied file is identical to the published one.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::abilities::{Ability, installed};
use crate::oracle::{CARGO_DENY, PYTHON_PROGRAMS};
use crate::{cargo, lock, npm};

/// Copy of the charts' library in this tree.
const CHARTS: &str = "crates/report/library/plotly-cartesian.min.js.gz";
/// Folder of a temporary package that depends on exactly the versions in Cargo.lock.
const PINNED: &str = "target/pinned";

type Check = fn() -> Result<Ability>;

/// Checks by name. A check returns whether it could be made, and an error if it finds a problem.
pub const CHECKS: [(&str, Check); 4] = [
    ("supply::licences_bans_and_sources", policy),
    ("supply::advisories", advisories),
    ("supply::yanked", yanked),
    ("supply::charts", charts),
];

/// Checks licences, banned crates and sources by the rules in `deny.toml`.
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
        return Ok(Err(database_is_missing(&said)));
    }
    ensure!(passes, "cargo deny: {said}");
    Ok(Ok(()))
}

/// Summarizes cargo-deny's output in one line: the advisory database is missing, and why.
fn database_is_missing(said: &str) -> String {
    let line = said.lines().last().unwrap_or_default();
    // git's last line has the reason. Lines of cargo-deny begin with a time.
    let why = line.split_once("[ERROR] ").map_or(line, |(_, why)| why);
    format!(
        "RustSec's advisory database is missing: {why}; let git reach github.com to have this check"
    )
}

/// Checks for yanked versions with Cargo's resolver, which accepts no yanked version without a lock
/// file. cargo-deny would report them only if it has the advisories.
fn yanked() -> Result<Ability> {
    let mut manifest = String::from(
        "[package]\nname = \"pinned\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [lib]\npath = \"/dev/null\"\n[workspace]\n[dependencies]\n",
    );
    for (number, package) in lock::packages()?.iter().enumerate() {
        let name = &package.name;
        // A version requirement must not contain the part after a `+`.
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

/// Checks that the charts' library in this tree is identical to the one in the npm package.
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
    deny.env("PATH", format!("{PYTHON_PROGRAMS}/bin:{path}"))
        .args(["deny", "--locked", "check", "--hide-inclusion-graph"]);
    deny
}

/// Runs a command. Returns whether it succeeds, and its stderr.
fn reported(command: &mut Command) -> Result<(bool, String)> {
    let output = command
        .output()
        .with_context(|| format!("starting {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Ok((output.status.success(), said))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected texts are the outputs of cargo-deny 0.20 without a name server, and without
    /// git.
    #[test]
    fn one_line_says_what_is_missing_and_why() {
        const URL: &str = "https://github.com/RustSec/advisory-db";
        let of_git = format!(
            "2026-11-27 19:55:17 [ERROR] failed to fetch advisory database {URL} with cli: failed to clone: [\"clone\"]\n\
             Cloning into '/root/.cargo/advisory-dbs/advisory-db-3157b0e258782691'...\n\
             fatal: unable to access '{URL}/': Could not resolve host: github.com"
        );
        let without_git = format!(
            "2026-11-27 20:05:52 [ERROR] failed to fetch advisory database {URL} with cli: failed to clone: failed to \
             spawn git: No such file or directory (os error 2)"
        );
        for (said, why) in [
            (
                of_git,
                "missing: fatal: unable to access 'https://github.com/RustSec/advisory-db/': Could not resolve host: github.com; ",
            ),
            (
                without_git,
                "failed to spawn git: No such file or directory (os error 2); ",
            ),
        ] {
            let reason = database_is_missing(&said);
            assert!(
                reason.starts_with("RustSec's advisory database is missing: "),
                "{reason}"
            );
            assert!(reason.contains(why), "{reason}");
            assert!(
                !reason.contains('\n') && !reason.contains("[ERROR]"),
                "{reason}"
            );
        }
    }
}
