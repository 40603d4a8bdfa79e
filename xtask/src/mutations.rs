//! Deliberate faults, one patch each (`xtask/mutations`): the test that a patch names must fail
//! where it is applied, or the test judges nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::cargo;

const FOLDER: &str = "xtask/mutations";
/// The tree in which they are tried; it keeps what was built for the next time.
const TRIED_IN: &str = "target/mutations";
/// Each fault is built once and runs one test: what is built sooner is done sooner.
const QUICKLY_BUILT: [&str; 4] = [
    "--config",
    "profile.dev.debug=false",
    "--config",
    "profile.dev.package.vmnoise-explain.opt-level=0",
];
/// What is no part of that tree.
const LEFT_OUT: [&str; 2] = ["target", ".git"];

/// One fault, of the form that [`Mutation::parse`] reads.
#[derive(Debug, PartialEq, Eq)]
struct Mutation {
    /// The name of its patch.
    name: String,
    fault: String,
    /// Arguments of `cargo test` that choose its package and target.
    target: Vec<String>,
    test: String,
    file: PathBuf,
    edits: Vec<Edit>,
}

/// Whole lines that occur once in the file, and what takes their place.
#[derive(Debug, Default, PartialEq, Eq)]
struct Edit {
    from: String,
    to: String,
}

impl Mutation {
    /// Reads `fault: …`, `test: -p PACKAGE TARGET NAME`, and a unified diff of one file. Its
    /// hunks have no line numbers: they are found by what they say, wherever that moves.
    fn parse(name: &str, text: &str) -> Result<Mutation> {
        let told = |key: &str| {
            let told = text.lines().find_map(|line| line.strip_prefix(key));
            told.with_context(|| format!("{name} has no line `{key}…`"))
        };
        let mut target: Vec<String> = told("test: ")?.split(' ').map(str::to_owned).collect();
        let test = target.pop().unwrap_or_default();
        let mut hunks = text.split("\n@@\n");
        let head = hunks.next().unwrap_or_default();
        let file = head
            .lines()
            .last()
            .and_then(|line| line.strip_prefix("+++ b/"));
        let edits: Vec<Edit> = hunks.map(Edit::parse).collect();
        ensure!(!edits.is_empty(), "{name} has no hunk");
        Ok(Mutation {
            name: name.to_owned(),
            fault: told("fault: ")?.to_owned(),
            target,
            test,
            file: file
                .with_context(|| format!("{name} names no file"))?
                .into(),
            edits,
        })
    }

    /// The file with the fault in it.
    fn applied(&self, root: &Path) -> Result<String> {
        let path = root.join(&self.file);
        let mut text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        for edit in &self.edits {
            text = edit.applied(&text).with_context(|| {
                let (name, file) = (&self.name, self.file.display());
                format!("{name} does not apply to {file}: write it anew, or remove it")
            })?;
        }
        Ok(text)
    }

    /// Whether its test passes in the tree, as it is now; an error where that does not build.
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
            self.name
        );
        let output = cargo_test(&["--", "--exact", &self.test])?;
        let said = String::from_utf8_lossy(&output.stdout);
        let ran = |outcome| said.contains(&format!("test result: {outcome}"));
        ensure!(
            ran("ok. 1 passed") || ran("FAILED. 0 passed; 1 failed") || !output.status.success(),
            "{}: there is no test {}",
            self.name,
            self.test
        );
        Ok(output.status.success())
    }
}

impl Edit {
    fn parse(hunk: &str) -> Edit {
        let mut edit = Edit::default();
        for line in hunk.lines() {
            let (mark, rest) = line.split_at_checked(1).unwrap_or((" ", ""));
            let sides: &mut [&mut String] = match mark {
                "-" => &mut [&mut edit.from],
                "+" => &mut [&mut edit.to],
                _ => &mut [&mut edit.from, &mut edit.to],
            };
            for side in sides {
                **side += &format!("{rest}\n");
            }
        }
        edit
    }

    fn applied(&self, text: &str) -> Result<String> {
        let whole = |lines: &str| format!("\n{lines}");
        let text = whole(text);
        let places = text.matches(&whole(&self.from)).count();
        ensure!(places == 1, "it is there {places} times:\n{}", self.from);
        let changed = text.replacen(&whole(&self.from), &whole(&self.to), 1);
        Ok(changed[1..].to_owned())
    }
}

/// All patches of a tree, by their names.
fn all(root: &Path) -> Result<Vec<Mutation>> {
    let folder = root.join(FOLDER);
    let mut paths = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        paths.push(entry?.path());
    }
    paths.sort();
    let read = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Mutation::parse(&name, &fs::read_to_string(path)?)
    };
    paths.iter().map(read).collect()
}

/// Tries those whose name has one of these words in it, or all, and fails where one survives.
pub fn run(words: &[String]) -> Result<()> {
    let (root, tree) = (Path::new("."), Path::new(TRIED_IN));
    let mut mutations = all(root)?;
    let is_asked_for = |it: &Mutation| words.iter().any(|word| it.name.contains(word));
    mutations.retain(|it| words.is_empty() || is_asked_for(it));
    ensure!(!mutations.is_empty(), "no fault has such a name");
    copy(root, tree)?;
    println!("== {} tests, first without a fault", mutations.len());
    for mutation in &mutations {
        let (name, test) = (&mutation.name, &mutation.test);
        ensure!(mutation.passes(tree)?, "{name}: {test} fails without it");
        println!("passes {test}");
    }
    let mut survived = 0;
    for mutation in &mutations {
        let path = tree.join(&mutation.file);
        let healthy = fs::read_to_string(&path)?;
        fs::write(&path, mutation.applied(tree)?)?;
        let passes = mutation.passes(tree);
        fs::write(&path, healthy)?;
        let passes = passes?;
        survived += usize::from(passes);
        let outcome = if passes { "SURVIVED" } else { "caught" };
        println!("{outcome} {}: {}", mutation.name, mutation.fault);
    }
    println!("{} caught, {survived} survived", mutations.len() - survived);
    if survived > 0 {
        bail!("{survived} faults pass the tests that should notice them");
    }
    Ok(())
}

/// Makes `to` like `from`. What is the same stays as it is: cargo builds what is newer.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    for entry in fs::read_dir(from)? {
        let (from, name) = {
            let entry = entry?;
            (entry.path(), entry.file_name())
        };
        let to = to.join(&name);
        if LEFT_OUT.iter().any(|it| name == **it) {
            continue;
        }
        if from.is_dir() {
            copy(&from, &to)?;
            continue;
        }
        let bytes = fs::read(&from).with_context(|| from.display().to_string())?;
        if fs::read(&to).ok().as_ref() != Some(&bytes) {
            fs::write(&to, bytes).with_context(|| to.display().to_string())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    #[test]
    fn every_fault_still_applies() {
        let mutations = all(&root()).unwrap();
        assert!(mutations.len() >= 20, "{}", mutations.len());
        for mutation in mutations {
            mutation.applied(&root()).unwrap();
        }
    }

    /// All that the sources of this crate say.
    fn sources(folder: &Path) -> String {
        let entries = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let text = |path: PathBuf| match path.is_dir() {
            true => sources(&path),
            false => fs::read_to_string(path).unwrap_or_default(),
        };
        entries.map(text).collect()
    }

    #[test]
    fn every_test_that_has_to_fail_is_there() {
        let sources = sources(&root().join("crates"));
        for Mutation { name, test, .. } in all(&root()).unwrap() {
            let (_, function) = test.rsplit_once("::").unwrap();
            let there = sources.contains(&format!("fn {function}("));
            assert!(there, "{name} names {test}, which is gone");
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

    #[test]
    fn a_hunk_is_found_by_what_it_says() {
        let patch = "fault: it subtracts\ntest: -p a --lib tests::adds\n--- a/x.rs\n+++ b/x.rs\n\
                     @@\n let a = 1;\n-a + b\n+a - b\n";
        let mutation = Mutation::parse("sign", patch).unwrap();
        assert_eq!(mutation.target, ["-p", "a", "--lib"]);
        assert_eq!(mutation.test, "tests::adds");
        assert_eq!(mutation.file, Path::new("x.rs"));
        let [edit] = &mutation.edits[..] else {
            panic!("{mutation:?}")
        };
        let text = "a + b\nlet a = 1;\na + b\nend\n";
        let faulty = "a + b\nlet a = 1;\na - b\nend\n";
        assert_eq!(edit.applied(text).unwrap(), faulty);
        assert!(edit.applied("let a = 1;\na + b + c\n").is_err());
        assert!(edit.applied(&text.repeat(2)).is_err(), "which of the two?");
    }
}
