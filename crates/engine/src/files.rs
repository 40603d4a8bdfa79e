//! Checks of output files. A path is opened before the run, so that no result is lost. Only a new
//! recording overwrites a recording.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::OFlags;
use vmnoise_console::say;
use vmnoise_console::status::UsageError;
use vmnoise_export::{FileOwner, Readers, is_ours};
use vmnoise_recording::RecordingReader;

/// Opens an output file, so that an unwritable path is refused before the run. A new file belongs
/// to the user who called sudo. An old file keeps its content until the first write.
pub fn claim(path: &Path, what: &str, readers: Readers) -> Result<File> {
    claim_with(path, what, readers, OFlags::empty())
}

/// Opens the trace file, which only its owner may read. If `path` is the default name `ours`, a
/// symlink is refused, so that its target is not touched.
pub fn claim_trace(path: &Path, ours: &str) -> Result<()> {
    let flags = match path == Path::new(ours) {
        true => OFlags::NOFOLLOW,
        false => OFlags::empty(),
    };
    claim_with(path, "trace", Readers::Owner, flags).map(drop)
}

fn claim_with(path: &Path, what: &str, readers: Readers, flags: OFlags) -> Result<File> {
    let mut options = OpenOptions::new();
    options
        .write(true)
        .mode(readers.mode())
        .custom_flags(flags.bits().cast_signed());
    let made = options.clone().create_new(true).open(path);
    if let (Ok(file), Some(owner)) = (&made, FileOwner::of_sudo()) {
        owner.take(file);
    }
    let file = made.or_else(|_| open_again(path, &mut options));
    let file = file.with_context(|| {
        format!(
            "cannot write the {what} {}; name a file in a folder you may write to",
            say::name_of(path)
        )
    })?;
    if readers == Readers::Owner {
        refuse_file_of_others(&file, path, what)?;
    }
    Ok(file)
}

/// Refuses a file of another user: its owner could read the content, and may already have the file
/// open.
fn refuse_file_of_others(file: &File, path: &Path, what: &str) -> Result<()> {
    let found = file.metadata()?;
    if found.is_file() && !is_ours(&found) {
        bail!(
            "{} belongs to the user {}, who could read the {what}: remove it, or name another file",
            say::name_of(path),
            found.uid()
        );
    }
    Ok(())
}

/// Opens an existing file, or the target of a symlink.
fn open_again(path: &Path, options: &mut OpenOptions) -> std::io::Result<File> {
    let opened = options.create(true).open(path);
    opened.or_else(|refused| {
        // In a folder like /tmp, root may not open another user's file with O_CREAT
        // (fs.protected_regular). A file of the user who called sudo is safe, because root created
        // it for this user.
        let theirs = options.create(false).open(path).ok();
        let is_theirs = |file: &File| {
            let owner = file.metadata().ok().map(|found| found.uid());
            owner.is_some() && owner == FileOwner::of_sudo().map(|owner| owner.uid)
        };
        theirs.filter(is_theirs).ok_or(refused)
    })
}

/// Begins a recording: truncates the file, and lets only its owner read it, because a recording
/// names every task that ran. Leaves a pipe or /dev/null unchanged.
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

/// Removes a file that is still empty because the run never began or no limit stopped it.
pub fn remove_if_empty(path: &Path) {
    if fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0) {
        // The error of the run is more important than this one.
        let _ = fs::remove_file(path);
    }
}

/// Files for results. Drop removes the files that are still empty.
#[derive(Debug, Default)]
pub struct ResultFiles(Vec<PathBuf>);

impl ResultFiles {
    /// Returns whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Claims a file for each result; `recordings` are the inputs.
    ///
    /// # Errors
    /// If a file cannot be written, is meant for two results, is a recording, or lies among tables
    /// that are read.
    pub fn results<'a>(
        results: impl IntoIterator<Item = (&'static str, &'a PathBuf)>,
        recordings: &[PathBuf],
    ) -> Result<ResultFiles> {
        let mut claimed = ResultFiles(Vec::new());
        for (what, path) in results {
            refuse_recording(path, recordings)?;
            refuse_among_tables(path, recordings)?;
            if claimed.0.iter().any(|other| is_same(path, other)) {
                let path = say::name_of(path);
                let why = format!("{path} cannot hold two results: name a file for each");
                return Err(UsageError(why).into());
            }
            // Opening a pipe and closing it would show its reader an end of file.
            if !fs::metadata(path).is_ok_and(|found| is_special(&found)) {
                claim(path, what, Readers::Anyone)?;
            }
            claimed.0.push(path.clone());
        }
        Ok(claimed)
    }
}

impl Drop for ResultFiles {
    fn drop(&mut self) {
        self.0.iter().for_each(|path| remove_if_empty(path));
    }
}

/// Refuses an output that is a recording. The files in `recordings` are refused even if they are
/// damaged.
///
/// # Errors
/// If the output is a recording.
pub fn refuse_recording(output: &Path, recordings: &[PathBuf]) -> Result<()> {
    let is_file = fs::metadata(output).is_ok_and(|found| found.is_file());
    let is_read = recordings.iter().any(|path| is_same(output, path));
    if is_file && (is_read || RecordingReader::open(output).is_ok()) {
        let why = format!(
            "{} is a recording and would be overwritten: name another file",
            say::name_of(output)
        );
        return Err(UsageError(why).into());
    }
    Ok(())
}

/// Refuses an output in a partition of a data set that is read (the folder of a run or an hour).
/// The file would replace a table, or be read as a table.
///
/// # Errors
/// If the output lies there.
pub fn refuse_among_tables(output: &Path, inputs: &[PathBuf]) -> Result<()> {
    // A symlink is followed to its target if the target exists.
    let whole = fs::canonicalize(output).unwrap_or_else(|_| output.to_owned());
    let folder = match whole.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let Ok(folder) = fs::canonicalize(folder) else {
        return Ok(());
    };
    let name = folder.file_name().map(OsStr::as_encoded_bytes);
    let is_partition = name.is_some_and(|name| name.contains(&b'='));
    let is_read = |input: &PathBuf| fs::canonicalize(input).is_ok_and(|it| folder.starts_with(it));
    match is_partition && inputs.iter().any(is_read) {
        true => Err(UsageError(format!(
            "{} is in the data set that is read: name a file outside of it",
            say::name_of(output)
        ))
        .into()),
        false => Ok(()),
    }
}

/// Returns whether both paths lead to the same file.
pub fn is_same(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        let found = fs::metadata(path).ok()?;
        found.is_file().then_some((found.dev(), found.ino()))
    };
    place(one).is_some_and(|one| Some(one) == place(other))
}

fn is_special(metadata: &Metadata) -> bool {
    !metadata.is_file() && !metadata.is_dir()
}
