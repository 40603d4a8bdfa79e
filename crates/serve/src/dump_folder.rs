//! Dumps that nobody waits for: each becomes a file of one folder, and the oldest ones make room. A thread
//! of its own writes them, for a disk may take its time.

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

/// So many of each kind are kept.
const KEPT: usize = 32;
/// How the names of ours end.
const END: &str = ".vmn";

/// What a dump was made for: a guest that asks often makes room by its like alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Something was late here.
    Late,
    /// A guest has asked.
    Asked,
}

impl Kind {
    /// How its names begin.
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
/// One is written, and one waits: whatever comes then is not worth the memory.
const WAITING: usize = 1;

/// What has come of them.
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

/// Where files go, and what has come of them.
#[derive(Debug, Clone)]
pub(crate) struct Shelf {
    folder: PathBuf,
    counts: Arc<Counts>,
}

impl Shelf {
    /// A file that is there once it is [`Shelf::put`].
    ///
    /// # Errors
    /// If the folder takes none.
    pub(crate) fn begin(&self, name: &str) -> io::Result<WholeFile> {
        WholeFile::create_here(&self.folder.join(name), Readers::Owner)
    }

    /// Puts it there, and makes room.
    ///
    /// # Errors
    /// If it cannot be put there, or older ones cannot be removed.
    pub(crate) fn put(&self, name: &str, file: WholeFile) -> Result<()> {
        file.finish()?;
        let mut others = self.ours(Kind::of(name))?;
        others.retain(|path| !path.ends_with(name));
        others.sort();
        let too_many = (others.len() + 1).saturating_sub(KEPT);
        // One that cannot be removed keeps no other.
        let removed = others.iter().take(too_many).map(fs::remove_file);
        let failed = removed.filter_map(io::Result::err);
        // Two threads put files there.
        let mut failed = failed.filter(|error| error.kind() != io::ErrorKind::NotFound);
        failed.next().map_or(Ok(()), |error| {
            Err(error).context("it is written, and older ones could not be removed")
        })
    }

    /// Counts, and says, what has come of one.
    pub(crate) fn count(&self, name: &str, result: Result<()>) {
        match result {
            Ok(()) => _ = self.counts.written.fetch_add(1, Relaxed),
            Err(error) => {
                self.counts.failed.fetch_add(1, Relaxed);
                let path = self.folder.join(name);
                say(&format!(
                    "{} could not be written: {error:#}",
                    path.display()
                ));
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

/// The folder, and the thread that writes there.
#[derive(Debug)]
pub(crate) struct DumpFolder {
    sender: SyncSender<(String, Vec<u8>)>,
    shelf: Shelf,
}

impl DumpFolder {
    /// In this folder, once rights have gone.
    ///
    /// # Errors
    /// If it takes no file, or there is no room for a thread.
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

    /// For whoever writes there too.
    pub(crate) fn shelf(&self) -> Shelf {
        self.shelf.clone()
    }

    /// Has a recording written under this name, unless two are being written already: whether it is.
    pub(crate) fn keep(&self, name: &str, recording: Vec<u8>) -> bool {
        let is_taken = self.sender.try_send((name.to_owned(), recording)).is_ok();
        if !is_taken {
            self.shelf.counts.failed.fetch_add(1, Relaxed);
        }
        is_taken
    }
}

/// The folder that `--dumps` names, which is made if it is not there.
///
/// # Errors
/// If it cannot be.
pub(crate) fn made(folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder)
        .and_then(|()| folder.canonicalize())
        .with_context(|| format!("--dumps {}: making the folder", folder.display()))
}

/// What one of this instant is called: names ascend as times do.
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
        // Those of guests take no other's place.
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
