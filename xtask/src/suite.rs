//! Lists the tests in the workspace's test programs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use cargo_metadata::Message;

use crate::programs;

/// A test, and the program that contains it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    pub program: PathBuf,
    /// Folder of the test's package. Cargo would run the test in this folder.
    pub folder: PathBuf,
    /// Path of the test within its program: `host_feed::kvm::a_guest_asks`.
    pub name: String,
}

impl Test {
    /// Returns whether `path` (such as `kvm` or `lab_full::own_suite`) is a module in the test's
    /// name. Whole segments of the name are compared.
    pub fn is_in(&self, path: &str) -> bool {
        let segments: Vec<&str> = self.name.split("::").collect();
        let wanted: Vec<&str> = path.split("::").collect();
        let mut windows = segments.windows(wanted.len());
        // The last segment of the name is the test function, not a module.
        windows.any(|window| window == wanted) && self.name.contains(&format!("{path}::"))
    }
}

/// Builds the test programs with the command `cargo`, and lists their tests.
///
/// # Errors
/// If the programs do not build, or if a test program cannot list its tests.
pub fn list(mut cargo: Command) -> Result<Vec<Test>> {
    let output = cargo
        .args(["test", "--quiet", "--no-run"])
        .args(programs::ALL)
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .context("starting cargo test --no-run")?;
    ensure!(output.status.success(), "cargo test --no-run failed");
    let mut tests = Vec::new();
    for (program, folder) in programs_in(&output.stdout)? {
        tests.extend(tests_of(&program, &folder)?);
    }
    Ok(tests)
}

/// Returns the test programs in Cargo's messages, each with the folder of its package.
fn programs_in(messages: &[u8]) -> Result<BTreeMap<PathBuf, PathBuf>> {
    let mut programs = BTreeMap::new();
    for message in Message::parse_stream(messages) {
        if let Message::CompilerArtifact(made) = message.context("reading Cargo's messages")?
            && made.profile.test
            && let (Some(program), Some(folder)) = (made.executable, made.manifest_path.parent())
        {
            programs.insert(program.into(), folder.into());
        }
    }
    Ok(programs)
}

fn tests_of(program: &PathBuf, folder: &PathBuf) -> Result<Vec<Test>> {
    let output = Command::new(program)
        .args(["--list", "--format=terse"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("listing the tests of {}", program.display()))?;
    ensure!(
        output.status.success(),
        "{} lists no tests: {}",
        program.display(),
        output.status
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
    let test = |name: &str| Test {
        program: program.clone(),
        folder: folder.clone(),
        name: name.to_owned(),
    };
    Ok(names.map(test).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_made_of_whole_segments_of_a_name() {
        let test = |name: &str| Test {
            program: PathBuf::new(),
            folder: PathBuf::new(),
            name: name.to_owned(),
        };
        assert!(test("host_feed::kvm::a_guest_asks").is_in("kvm"));
        assert!(!test("vcpus_kvm::an_exit").is_in("kvm"));
        assert!(!test("exits::kvm").is_in("kvm"), "a function");
        assert!(test("neighbours::lab_full::own_suite::one").is_in("lab_full::own_suite"));
        assert!(!test("neighbours::lab_full::trixie::one").is_in("lab_full::own_suite"));
    }
}
