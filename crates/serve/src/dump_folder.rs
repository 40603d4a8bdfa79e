//! Automatic dumps: each becomes a file in one folder, and the oldest files are removed. A separate
//! thread writes them, since a disk may be slow.

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

/// Number of files of each kind that are kept.
const KEPT: usize = 32;
/// End of the names of these files.
const END: &str = ".vmn";

/// Kind of a dump. Each kind replaces its own files only, so a guest that asks often removes no
/// others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A wait or a loss on this host.
    Late,
    /// A request of a guest.
    Asked,
}

impl Kind {
    /// Returns the begin of the file names of this kind.
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
/// Dumps that wait while another one is written. Further dumps are not worth the memory.
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

/// The folder for the files, and their counts by outcome.
#[derive(Debug, Clone)]
pub(crate) struct Shelf {
    folder: PathBuf,
    counts: Arc<Counts>,
}

impl Shelf {
    /// Creates a file that appears in the folder at [`Shelf::put`].
    ///
    /// # Errors
    /// If the folder does not take it.
    pub(crate) fn begin(&self, name: &str) -> io::Result<WholeFile> {
        WholeFile::create_here(&self.folder.join(name), Readers::Owner)
    }

    /// Puts the file into the folder, and removes the oldest ones.
    ///
    /// # Errors
    /// If it cannot be put there, or older files cannot be removed.
    pub(crate) fn put(&self, name: &str, file: WholeFile) -> Result<()> {
        file.finish()?;
        let mut others = self.ours(Kind::of(name))?;
        others.retain(|path| !path.ends_with(name));
        others.sort();
        let too_many = (others.len() + 1).saturating_sub(KEPT);
        // A file that cannot be removed does not prevent the removal of others.
        let removed = others.iter().take(too_many).map(fs::remove_file);
        let failed = removed.filter_map(io::Result::err);
        // Two threads put files into the folder, so one may find that the other has removed a file.
        let mut failed = failed.filter(|error| error.kind() != io::ErrorKind::NotFound);
        failed.next().map_or(Ok(()), |error| {
            Err(error).context("the file is written, but an older one could not be removed")
        })
    }

    /// Counts the outcome of a file, and logs an error.
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
    /// Opens this folder, after rights have been dropped.
    ///
    /// # Errors
    /// If it does not take files, or the thread cannot be started.
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

    /// Returns a handle for another thread that writes there.
    pub(crate) fn shelf(&self) -> Shelf {
        self.shelf.clone()
    }

    /// Queues a recording under this name. Returns false if two recordings are already being
    /// written.
    pub(crate) fn keep(&self, name: &str, recording: Vec<u8>) -> bool {
        let is_taken = self.sender.try_send((name.to_owned(), recording)).is_ok();
        if !is_taken {
            self.shelf.counts.failed.fetch_add(1, Relaxed);
        }
        is_taken
    }
}

/// Returns the folder of `--dumps`, and makes it if it is missing.
///
/// # Errors
/// If it cannot be made.
pub(crate) fn made(folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder)
        .and_then(|()| folder.canonicalize())
        .with_context(|| format!("--dumps {}: making the folder", folder.display()))
}

/// Returns the name of a dump at `now`: names sort like times.
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
        // Files for guests replace no others.
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
