//! Checks that need no particular machine: format, lints, docs.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{cargo, run};

/// Runs every check; the first that fails ends it.
pub fn all() -> Result<()> {
    daily()?;
    documentation()
}

/// Whether it can be written.
pub fn documentation() -> Result<()> {
    run(&cargo(), &["doc", "--quiet", "--workspace", "--no-deps"])
}

/// Those of daily work. The documentation is left to the gate: it takes as long as the lints.
pub fn daily() -> Result<()> {
    format()?;
    run(
        &cargo(),
        &[
            "clippy",
            "--quiet",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
    )
}

/// Of all sources.
pub fn format() -> Result<()> {
    run(&cargo(), &["fmt", "--all", "--check"])?;
    c_format()
}

/// The BPF programs and their headers, by the `.clang-format` of the tree.
fn c_format() -> Result<()> {
    let mut files = Vec::new();
    c_files(Path::new("crates"), &mut files)?;
    let files: Vec<String> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let mut arguments = vec!["--dry-run", "--Werror"];
    arguments.extend(files.iter().map(String::as_str));
    run("clang-format", &arguments)
}

fn c_files(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            c_files(&path, found)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "c" || extension == "h")
        {
            found.push(path);
        }
    }
    Ok(())
}
