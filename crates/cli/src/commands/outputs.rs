//! Files that something will be written to: tried before there is a result to lose, and never
//! a recording, which nobody could measure again.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::OFlags;
use vmnoise_export::{Readers, WholeFile};
use vmnoise_recording::Reader;

use crate::recent_trace::RecentTrace;
use crate::status::UsageError;

/// Opens an output file, so that a path that cannot be written is refused before the
/// run. What is in it stays until there is something to write.
pub fn claim(path: &Path, what: &str, readers: Readers) -> Result<File> {
    claim_with(path, what, readers, OFlags::empty())
}

/// The same for the trace, which its owner alone may read. `ours` is the name that it has
/// where nobody named it: what a link of that name points to is not touched.
pub fn claim_trace(path: &Path, ours: &str) -> Result<()> {
    let flags = match path == Path::new(ours) {
        true => OFlags::NOFOLLOW,
        false => OFlags::empty(),
    };
    claim_with(path, "trace", Readers::Owner, flags).map(drop)
}

fn claim_with(path: &Path, what: &str, readers: Readers, flags: OFlags) -> Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(readers.mode())
        .custom_flags(flags.bits().cast_signed())
        .open(path);
    file.with_context(|| {
        format!(
            "cannot write the {what} {}; name a file in a folder you may write to",
            path.display()
        )
    })
}

/// Writes a result that people or programs look at: it is replaced whole or not at all.
///
/// # Errors
/// If the kernel refuses.
pub fn write_whole(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = WholeFile::create(path, Readers::Anyone)?;
    file.write_all(content)?;
    file.finish()
}

/// Begins a recording in this file, which its owner alone may read from now on: it names
/// every task that ran. A pipe or /dev/null has nothing to empty.
///
/// # Errors
/// If the kernel refuses.
pub fn begin_recording(file: &File) -> std::io::Result<()> {
    if file.metadata()?.is_file() {
        file.set_len(0)?;
        file.set_permissions(Permissions::from_mode(Readers::Owner.mode()))?;
    }
    Ok(())
}

/// Saves the trace; `ours` as of [`claim_trace`].
///
/// # Errors
/// If the kernel refuses; the message names the file.
pub fn save_trace(trace: &RecentTrace, path: &Path, ours: &str) -> Result<()> {
    let file = match path == Path::new(ours) {
        true => WholeFile::create_here(path, Readers::Owner),
        false => WholeFile::create(path, Readers::Owner),
    };
    let saved = file.and_then(|mut file| {
        trace.save(&mut file)?;
        file.finish()
    });
    saved.with_context(|| format!("saving the trace to {}", path.display()))
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
                claim(path, what, Readers::Anyone)?;
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
