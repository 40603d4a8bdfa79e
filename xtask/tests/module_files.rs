//! A module with submodules is a folder, and its own file is `mod.rs` in this folder. So all files
//! of the module are in one place.

use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

#[test]
fn a_module_with_parts_has_its_file_beside_them() {
    let mut found = Vec::new();
    for folder in ["crates", "xtask/src", "xtask/tests"] {
        let folder = Path::new(ROOT).join(folder);
        assert!(has_rust(&folder), "{} has no files", folder.display());
        outside_of_their_folders(&folder, &mut found);
    }
    assert!(found.is_empty(), "move these to mod.rs: {found:?}");
}

#[test]
fn a_file_outside_of_the_folder_of_its_parts_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    };
    let found = || {
        let mut found = Vec::new();
        outside_of_their_folders(folder.path(), &mut found);
        found
    };
    write("src/a/mod.rs");
    write("src/a/part.rs");
    write("src/b.rs");
    write("src/b/data.json");
    assert!(found().is_empty());
    write("src/b/part.rs");
    assert_eq!(found(), [folder.path().join("src/b.rs")]);
    write("src/c.rs");
    write("src/c/d/mod.rs");
    let mut both = found();
    both.sort();
    assert_eq!(
        both,
        ["src/b.rs", "src/c.rs"].map(|it| folder.path().join(it))
    );
}

/// Collects each Rust file that has a folder of the same name next to it, if this folder contains
/// Rust files.
fn outside_of_their_folders(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in entries(folder) {
        if path.is_dir() {
            outside_of_their_folders(&path, found);
        } else if is_rust(&path) && has_rust(&path.with_extension("")) {
            found.push(path);
        }
    }
}

/// Returns whether a folder or one of its subfolders contains Rust files.
fn has_rust(folder: &Path) -> bool {
    entries(folder).any(|it| is_rust(&it) || it.is_dir() && has_rust(&it))
}

/// Returns the entries of a folder; none if the folder does not exist.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path())
}

fn is_rust(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs")
}
