//! Files that something will be written to: tried before there is a result to lose, and never
//! a recording, which nobody could measure again.

use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use vmnoise_recording::Reader;

use crate::status::UsageError;

/// Opens an output file, so that a path that cannot be written is refused before the
/// run. What is in it stays until there is something to write.
pub fn claim(path: &Path, what: &str) -> Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path);
    file.with_context(|| {
        format!(
            "cannot write the {what} {}; name a file in a folder you may write to",
            path.display()
        )
    })
}

/// A pipe or /dev/null has nothing to empty.
pub fn empty(file: &File) -> std::io::Result<()> {
    match file.metadata()?.is_file() {
        true => file.set_len(0),
        false => Ok(()),
    }
}

/// A run that never began or was never stopped leaves no empty file behind.
pub fn remove_if_empty(path: &Path) {
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0) {
        // The error of the run is the one to tell.
        let _ = std::fs::remove_file(path);
    }
}

/// Files of results. Those that got none are gone when this is dropped.
#[derive(Debug)]
pub struct Claimed(Vec<PathBuf>);

impl Claimed {
    /// Claims a file for each result, each by its name, made out of these recordings.
    ///
    /// # Errors
    /// If one cannot be written, is meant for two results, or is a recording.
    pub fn results<'a>(
        results: impl IntoIterator<Item = (&'static str, &'a PathBuf)>,
        recordings: &[PathBuf],
    ) -> Result<Claimed> {
        let mut claimed = Claimed(Vec::new());
        for (what, path) in results {
            refuse_recording(path, recordings)?;
            if claimed.0.iter().any(|other| is_same(path, other)) {
                let path = path.display();
                let why = format!("{path} is to hold two results: name a file for each");
                return Err(UsageError(why).into());
            }
            // Who reads from a pipe would see its end.
            if !std::fs::metadata(path).is_ok_and(|found| is_special(&found)) {
                claim(path, what)?;
            }
            claimed.0.push(path.clone());
        }
        Ok(claimed)
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        self.0.iter().for_each(|path| remove_if_empty(path));
    }
}

/// Refuses an output that is one of these recordings, be it damaged, or another.
///
/// # Errors
/// If it is.
pub fn refuse_recording(output: &Path, recordings: &[PathBuf]) -> Result<()> {
    let is_file = std::fs::metadata(output).is_ok_and(|found| found.is_file());
    let is_read = recordings.iter().any(|path| is_same(output, path));
    if is_file && (is_read || Reader::open(output).is_ok()) {
        let why = format!(
            "{} is a recording, which would be overwritten: name another file",
            output.display()
        );
        return Err(UsageError(why).into());
    }
    Ok(())
}

/// Whether both names are of one file.
pub fn is_same(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        let found = std::fs::metadata(path).ok()?;
        found.is_file().then_some((found.dev(), found.ino()))
    };
    place(one).is_some_and(|one| Some(one) == place(other))
}

fn is_special(metadata: &Metadata) -> bool {
    !metadata.is_file() && !metadata.is_dir()
}
