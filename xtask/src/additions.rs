//! Example patches for the most frequent additions (`xtask/additions`). Tests prove that the
//! patched sources build. CONTRIBUTING.md lists the files that an addition must change, and the
//! patch changes exactly these files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo;
use crate::patch::{self, Patch};

/// Copy of the tree, in which the patched sources are built.
const BUILT_IN: &str = "target/additions";

/// Sections of CONTRIBUTING.md, and the largest number of files that each may name.
const SECTIONS: [(&str, usize); 2] = [("Adding a column", 5), ("Adding a share", 10)];

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.canonicalize().unwrap()
}

fn additions() -> Vec<Patch> {
    let patches = Patch::all(&root().join("xtask/additions")).unwrap();
    assert_eq!(patches.len(), SECTIONS.len());
    patches
}

/// Returns the files that a section of CONTRIBUTING.md names.
fn listed(section: &str) -> BTreeSet<PathBuf> {
    let document = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let heading = format!("\n## {section}\n");
    let (_, section) = document.split_once(&heading).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let named = section.split('`').skip(1).step_by(2);
    let files = named.filter(|name| name.starts_with("crates/") && name.contains('.'));
    files.map(PathBuf::from).collect()
}

#[test]
fn an_addition_changes_what_the_document_lists_and_no_more() {
    for (section, most) in SECTIONS {
        let additions = additions();
        let mut of_section = additions.iter();
        let addition = of_section.find(|it| it.reported("list: ").unwrap() == section);
        let addition = addition.expect(section);
        let changed = addition.applied(&root()).unwrap();
        let changed: BTreeSet<PathBuf> = changed.iter().map(|it| it.0.into()).collect();
        assert_eq!(changed, listed(section), "{section}");
        assert!(changed.len() <= most, "{section}: {changed:?}");
    }
}

/// Tests that take about a minute on two CPUs.
mod lab_full {
    use super::*;

    /// Builds the tree with all additions at once. Dependencies are not built again.
    #[test]
    fn with_the_additions_in_it_the_program_builds() {
        let (root, tree) = (root(), root().join(BUILT_IN));
        patch::copy(&root, &tree).unwrap();
        for addition in additions() {
            for (file, text) in addition.applied(&tree).unwrap() {
                fs::write(tree.join(file), text).unwrap();
            }
        }
        let mut check = Command::new(cargo());
        check.args(["check", "--quiet", "--package", "vmnoise"]);
        check.arg("--target-dir").arg(root.join("target"));
        let output = check.current_dir(&tree).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
    }
}
