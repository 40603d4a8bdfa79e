//! Checks the format of all sources.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{cargo, run};

/// Checks the format of all Rust and C sources.
pub fn format() -> Result<()> {
    run(&cargo(), &["fmt", "--all", "--check"])?;
    c_format()
}

/// Checks the format of the BPF programs and their headers, by the file `.clang-format`.
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
