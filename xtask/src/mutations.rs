//! Applies deliberate faults, one patch each (`xtask/mutations`). Each patch names a test, which
//! must fail with this fault. Otherwise the test proves nothing.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::cargo;
use crate::patch::{self, Patch};

const FOLDER: &str = "xtask/mutations";
/// Copy of the tree, in which faults are tried. Its compiled files are kept for the next run.
const TRIED_IN: &str = "target/mutations";
/// Cargo options for a quick build, because each fault is built once and runs one test.
const QUICKLY_BUILT: [&str; 4] = [
    "--config",
    "profile.dev.debug=false",
    "--config",
    "profile.dev.package.vmnoise-explain.opt-level=0",
];

/// A fault. Its patch has the lines `fault: …` and `test: -p PACKAGE TARGET NAME`, and a diff.
#[derive(Debug)]
struct Mutation {
    patch: Patch,
    fault: String,
    /// Arguments of `cargo test` that select the package and the test program.
    target: Vec<String>,
    test: String,
}

impl Mutation {
    fn new(patch: Patch) -> Result<Mutation> {
        let test = patch.reported("test: ")?;
        let mut target: Vec<String> = test.split(' ').map(str::to_owned).collect();
        let test = target.pop().unwrap_or_default();
        Ok(Mutation {
            fault: patch.reported("fault: ")?.to_owned(),
            target,
            test,
            patch,
        })
    }

    /// Returns whether the test passes with the current files of the tree. Fails if the tree does
    /// not build.
    fn passes(&self, tree: &Path) -> Result<bool> {
        let cargo_test = |last: &[&str]| {
            let mut command = Command::new(cargo());
            command.current_dir(tree).args(["test", "--quiet"]);
            command.args(QUICKLY_BUILT).args(&self.target).args(last);
            let output = command.stdin(Stdio::null()).output();
            output.context("starting cargo test")
        };
        let built = cargo_test(&["--no-run"])?;
        let errors = String::from_utf8_lossy(&built.stderr);
        ensure!(
            built.status.success(),
            "{} does not build: {errors}",
            self.patch.name
        );
        let output = cargo_test(&["--", "--exact", &self.test])?;
        let said = String::from_utf8_lossy(&output.stdout);
        let ran = |outcome| said.contains(&format!("test result: {outcome}"));
        ensure!(
            ran("ok. 1 passed") || ran("FAILED. 0 passed; 1 failed") || !output.status.success(),
            "{}: there is no test {}",
            self.patch.name,
            self.test
        );
        Ok(output.status.success())
    }
}

/// Returns all faults of a tree, sorted by the names of their patches.
fn all(root: &Path) -> Result<Vec<Mutation>> {
    let patches = Patch::all(&root.join(FOLDER))?;
    patches.into_iter().map(Mutation::new).collect()
}

/// Tries all faults, or only those whose names contain one of these words. Fails if a test passes
/// despite its fault.
pub fn run(words: &[String]) -> Result<()> {
    let (root, tree) = (Path::new("."), Path::new(TRIED_IN));
    let mut mutations = all(root)?;
    let is_asked_for = |it: &Mutation| words.iter().any(|word| it.patch.name.contains(word));
    mutations.retain(|it| words.is_empty() || is_asked_for(it));
    ensure!(!mutations.is_empty(), "no fault's name has such a word");
    patch::copy(root, tree)?;
    println!("== {} tests, first without a fault", mutations.len());
    for mutation in &mutations {
        let (name, test) = (&mutation.patch.name, &mutation.test);
        ensure!(mutation.passes(tree)?, "{name}: {test} fails without it");
        println!("passes {test}");
    }
    let mut survived = 0;
    for mutation in &mutations {
        let mut healthy = Vec::new();
        for (file, faulty) in mutation.patch.applied(tree)? {
            let path = tree.join(file);
            healthy.push((path.clone(), fs::read_to_string(&path)?));
            fs::write(path, faulty)?;
        }
        let passes = mutation.passes(tree);
        for (path, text) in healthy {
            fs::write(path, text)?;
        }
        let passes = passes?;
        survived += usize::from(passes);
        let outcome = if passes { "SURVIVED" } else { "caught" };
        println!("{outcome} {}: {}", mutation.patch.name, mutation.fault);
    }
    println!("{} caught, {survived} survived", mutations.len() - survived);
    if survived > 0 {
        bail!("{survived} faults pass the tests that should notice them");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    #[test]
    fn every_fault_still_applies() {
        let mutations = all(&root()).unwrap();
        assert!(mutations.len() >= 20, "{}", mutations.len());
        for mutation in mutations {
            mutation.patch.applied(&root()).unwrap();
        }
    }

    /// Collects the path and the text of each file below a folder.
    fn sources(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else {
                let text = fs::read_to_string(&path).unwrap_or_default();
                found.push((path, text));
            }
        }
    }

    /// Returns the modules of a file: `exits` and `tests` for
    /// `crates/tracer/src/exits/tests/mod.rs`.
    fn modules(file: &Path) -> Vec<String> {
        let names = file.with_extension("");
        let names = names.iter().map(|name| name.to_string_lossy().into_owned());
        let mut names: Vec<String> = names
            .skip_while(|name| name != "src" && name != "tests")
            .skip(1)
            .collect();
        names.pop_if(|last| ["mod", "main", "lib"].contains(&last.as_str()));
        names
    }

    #[test]
    fn every_test_that_has_to_fail_is_there() {
        let mut files = Vec::new();
        sources(Path::new("../crates"), &mut files);
        for Mutation { patch, test, .. } in all(&root()).unwrap() {
            let (path, function) = test.rsplit_once("::").unwrap();
            let path: Vec<String> = path.split("::").map(str::to_owned).collect();
            let there = files.iter().any(|(file, text)| {
                let inside = path.strip_prefix(&modules(file)[..]).unwrap_or(&path);
                let mut inside = inside.iter();
                text.contains(&format!("fn {function}("))
                    && inside.all(|name| text.contains(&format!("mod {name} {{")))
            });
            assert!(there, "{} names {test}, which is gone", patch.name);
        }
    }

    #[test]
    fn the_document_lists_every_fault_and_its_test() {
        let document = fs::read_to_string(root().join("docs/validation.md")).unwrap();
        for Mutation { fault, test, .. } in all(&root()).unwrap() {
            let test = test.rsplit("::").next().unwrap();
            let row = format!("| {fault} | `{test}` |");
            assert!(document.contains(&row), "docs/validation.md lacks {row}");
        }
    }
}
