//! The folder for automatic dumps. Each dump becomes a file, and the oldest files are removed. A
//! separate thread writes the files, because a disk may be slow.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};

use anyhow::{Context, Result};
use vmnoise_export::{Readers, WholeFile};
use vmnoise_rights::threads;

use crate::confined::takes_files;
use crate::say::say;

/// Largest number of files of each kind in the folder.
const KEPT: usize = 32;
/// Suffix of the names of these files.
const END: &str = ".vmn";

/// Kind of a dump. A new file replaces only files of its own kind. A guest that requests many dumps
/// thus removes no dumps of the other kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A dump because of a wait or another loss on this host, or because of a signal.
    Late,
    /// A dump that a guest requested.
    Asked,
}

impl Kind {
    /// Returns the prefix of the file names of this kind.
    const fn begin(self) -> &'static str {
        match self {
            Kind::Late => "late-",
            Kind::Asked => "asked-",
        }
    }

    fn of(name: &str) -> Kind {
        match name.starts_with(Kind::Asked.begin()) {
            true => Kind::Asked,
            false => Kind::Late,
        }
    }
}
/// Largest number of dumps that wait while another dump is written. More waiting dumps are not
/// worth their memory.
const WAITING: usize = 1;

/// Number of dumps, by outcome.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    written: AtomicU64,
    failed: AtomicU64,
}

impl Counts {
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }
}

/// Handle for writing into the folder, which also counts the files by outcome.
#[derive(Debug, Clone)]
pub(crate) struct Shelf {
    folder: PathBuf,
    counts: Arc<Counts>,
}

impl Shelf {
    /// Creates a file. It appears in the folder only when [`Shelf::put`] is called.
    ///
    /// # Errors
    /// If the file cannot be created in the folder.
    pub(crate) fn begin(&self, name: &str) -> io::Result<WholeFile> {
        WholeFile::create_here(&self.folder.join(name), Readers::Owner)
    }

    /// Makes the file appear in the folder, and removes the oldest files of its kind.
    ///
    /// # Errors
    /// If the file cannot be completed, or older files cannot be removed.
    pub(crate) fn put(&self, name: &str, file: WholeFile) -> Result<()> {
        file.finish()?;
        let mut others = self.ours(Kind::of(name))?;
        others.retain(|path| !path.ends_with(name));
        others.sort();
        let too_many = (others.len() + 1).saturating_sub(KEPT);
        // A file that cannot be removed does not prevent the removal of others.
        let removed = others.iter().take(too_many).map(fs::remove_file);
        let failed = removed.filter_map(io::Result::err);
        // Two threads put files into the folder. The other thread may already have removed this
        // file.
        let mut failed = failed.filter(|error| error.kind() != io::ErrorKind::NotFound);
        failed.next().map_or(Ok(()), |error| {
            Err(error).context("the file is written, but an older one could not be removed")
        })
    }

    /// Counts a file as written or failed. Logs the error if it failed.
    pub(crate) fn count(&self, name: &str, result: Result<()>) {
        match result {
            Ok(()) => _ = self.counts.written.fetch_add(1, Relaxed),
            Err(error) => {
                self.counts.failed.fetch_add(1, Relaxed);
                let path = self.folder.join(name);
                say(&format!("writing {}: {error:#}", path.display()));
            }
        }
    }

    fn keep(&self, name: &str, recording: &[u8]) -> Result<()> {
        let mut file = self.begin(name)?;
        file.write_all(recording)?;
        self.put(name, file)
    }

    fn ours(&self, kind: Kind) -> io::Result<Vec<PathBuf>> {
        let is_ours = |name: &OsString| {
            let name = name.to_string_lossy();
            name.starts_with(kind.begin()) && name.ends_with(END)
        };
        let entries = fs::read_dir(&self.folder)?;
        let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
        let names: Vec<OsString> = names.collect::<io::Result<_>>()?;
        let ours = names.into_iter().filter(is_ours);
        Ok(ours.map(|name| self.folder.join(name)).collect())
    }
}

/// The folder, and the queue to the thread that writes into it.
#[derive(Debug)]
pub(crate) struct DumpFolder {
    sender: SyncSender<(String, Vec<u8>)>,
    shelf: Shelf,
}

impl DumpFolder {
    /// Opens this folder for dumps, and starts the thread that writes. Rights must have been
    /// dropped before.
    ///
    /// # Errors
    /// If no file can be created in the folder, or the thread cannot be started.
    pub(crate) fn open(folder: &Path) -> Result<DumpFolder> {
        takes_files(folder)?;
        let (sender, dumps) = sync_channel::<(String, Vec<u8>)>(WAITING);
        let shelf = Shelf {
            folder: folder.to_owned(),
            counts: Arc::default(),
        };
        let written = shelf.clone();
        threads::spawn("vmnoise-dumps", &[], move || {
            for (name, recording) in dumps {
                written.count(&name, written.keep(&name, &recording));
            }
        })
        .context("starting the thread that writes dumps")?;
        Ok(DumpFolder { sender, shelf })
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.shelf.counts
    }

    /// Returns a handle by which another thread can write into the folder.
    pub(crate) fn shelf(&self) -> Shelf {
        self.shelf.clone()
    }

    /// Queues a recording under this name. Returns whether it was queued. Returns false if one
    /// recording is being written and another one is queued.
    pub(crate) fn keep(&self, name: &str, recording: Vec<u8>) -> bool {
        let is_taken = self.sender.try_send((name.to_owned(), recording)).is_ok();
        if !is_taken {
            self.shelf.counts.failed.fetch_add(1, Relaxed);
        }
        is_taken
    }
}

/// Returns the folder of `--dumps` as an absolute path. Creates the folder if it is missing.
///
/// # Errors
/// If the folder cannot be created.
pub(crate) fn made(folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder)
        .and_then(|()| folder.canonicalize())
        .with_context(|| format!("--dumps {}: making the folder", folder.display()))
}

/// Returns the file name of a dump that is made at `now`. Names of one kind sort by time.
pub(crate) fn name(kind: Kind, now: jiff::Timestamp) -> String {
    let begin = kind.begin();
    format!("{begin}{}{END}", now.strftime("%Y%m%dT%H%M%S.%3fZ"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_ours_make_room_and_nothing_else_goes() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("a-file-of-somebody.vmn");
        fs::write(&other, "kept").unwrap();
        let shelf = Shelf {
            folder: folder.path().to_owned(),
            counts: Arc::default(),
        };
        for number in 0..KEPT + 3 {
            let name = format!("late-{number:04}.vmn");
            shelf.keep(&name, &[7]).unwrap();
        }
        // Files for guests do not replace files of the other kind.
        for number in 0..KEPT + 5 {
            let name = format!("asked-{number:04}.vmn");
            shelf.keep(&name, &[7]).unwrap();
        }
        assert_eq!(shelf.ours(Kind::Asked).unwrap().len(), KEPT);
        let mut left = shelf.ours(Kind::Late).unwrap();
        left.sort();
        assert_eq!(left.len(), KEPT);
        assert!(left[0].ends_with("late-0003.vmn"), "{left:?}");
        assert!(other.exists());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2 * KEPT + 1);
    }

    #[test]
    fn a_folder_that_is_none_is_refused_by_name() {
        for error in [
            made(Path::new("/proc/nothing")).unwrap_err(),
            DumpFolder::open(Path::new("/proc")).unwrap_err(),
        ] {
            assert!(format!("{error:#}").contains("/proc"), "{error:#}");
        }
    }
}
