//! Dumps that nobody waits for: each becomes a file of one folder, and the oldest ones make room. A thread
//! of its own writes them, for a disk may take its time.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};

use anyhow::{Context, Result};
use vmnoise_export::{Readers, place};
use vmnoise_rights::threads;

use crate::confined::takes_files;
use crate::say::say;

/// So many are kept.
const KEPT: usize = 32;
/// How the names of ours begin and end.
const NAMES: (&str, &str) = ("late-", ".vmn");
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

/// The folder, and the thread that writes there.
#[derive(Debug)]
pub(crate) struct DumpFolder {
    sender: SyncSender<(String, Vec<u8>)>,
    counts: Arc<Counts>,
}

impl DumpFolder {
    /// In this folder, once rights have gone.
    ///
    /// # Errors
    /// If it takes no file, or there is no room for a thread.
    pub(crate) fn open(folder: &Path) -> Result<DumpFolder> {
        takes_files(folder)?;
        let (sender, dumps) = sync_channel::<(String, Vec<u8>)>(WAITING);
        let counts = Arc::new(Counts::default());
        let (folder, counted) = (folder.to_owned(), Arc::clone(&counts));
        threads::spawn("vmnoise-dumps", &[], move || {
            for (name, recording) in dumps {
                match keep(&folder, &name, &recording) {
                    Ok(()) => _ = counted.written.fetch_add(1, Relaxed),
                    Err(error) => {
                        counted.failed.fetch_add(1, Relaxed);
                        let path = folder.join(&name);
                        say(&format!(
                            "{} could not be written: {error:#}",
                            path.display()
                        ));
                    }
                }
            }
        })
        .context("starting the thread that writes dumps")?;
        Ok(DumpFolder { sender, counts })
    }

    pub(crate) fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }

    /// Has a recording written under this name, unless two are being written already: whether it is.
    pub(crate) fn keep(&self, name: &str, recording: Vec<u8>) -> bool {
        let is_taken = self.sender.try_send((name.to_owned(), recording)).is_ok();
        if !is_taken {
            self.counts.failed.fetch_add(1, Relaxed);
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
pub(crate) fn name(now: jiff::Timestamp) -> String {
    let (begin, end) = NAMES;
    format!("{begin}{}{end}", now.strftime("%Y%m%dT%H%M%S.%3fZ"))
}

/// Puts one there, and makes room.
fn keep(folder: &Path, name: &str, recording: &[u8]) -> Result<()> {
    place(&folder.join(name), recording, Readers::Owner)?;
    let mut others = ours(folder)?;
    others.retain(|path| !path.ends_with(name));
    others.sort();
    let too_many = (others.len() + 1).saturating_sub(KEPT);
    // One that cannot be removed keeps no other.
    let removed = others.iter().take(too_many).map(fs::remove_file);
    let failed: Vec<io::Error> = removed.filter_map(io::Result::err).collect();
    failed.into_iter().next().map_or(Ok(()), |error| {
        Err(error).context("it is written, and older ones could not be removed")
    })
}

fn ours(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let (begin, end) = NAMES;
    let is_ours = |name: &OsString| {
        let name = name.to_string_lossy();
        name.starts_with(begin) && name.ends_with(end)
    };
    let entries = fs::read_dir(folder)?;
    let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
    let names: Vec<OsString> = names.collect::<io::Result<_>>()?;
    let ours = names.into_iter().filter(is_ours);
    Ok(ours.map(|name| folder.join(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_ours_make_room_and_nothing_else_goes() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("a-file-of-somebody.vmn");
        fs::write(&other, "kept").unwrap();
        for number in 0..KEPT + 3 {
            let name = format!("late-{number:04}.vmn");
            keep(folder.path(), &name, &[7]).unwrap();
        }
        let mut left = ours(folder.path()).unwrap();
        left.sort();
        assert_eq!(left.len(), KEPT);
        assert!(left[0].ends_with("late-0003.vmn"), "{left:?}");
        assert!(other.exists());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), KEPT + 1);
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
