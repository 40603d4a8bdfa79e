//! A result that appears under its name only when it is complete.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

use crate::error::{ExportError, io_error};
use crate::owner::{FileOwner, is_ours, make_folder};

/// Users who may read a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// All that the umask allows: pages and tables are made to be shown.
    Anyone,
    /// Only its owner: a trace names every task that ran.
    Owner,
}

impl Readers {
    /// Returns the permissions of a new file, before the umask.
    pub const fn mode(self) -> u32 {
        match self {
            Readers::Anyone => 0o666,
            Readers::Owner => 0o600,
        }
    }
}

/// Writes a file with these bytes as a whole, and makes missing folders above it.
///
/// # Errors
/// If a folder or the file cannot be made.
pub fn place(path: &Path, bytes: &[u8], readers: Readers) -> Result<(), ExportError> {
    let put = || {
        make_folder(path.parent().unwrap_or(Path::new("")))?;
        let mut file = WholeFile::create_here(path, readers)?;
        file.write_all(bytes)?;
        file.finish()
    };
    put().map_err(io_error(path))
}

/// Writes a result for people or programs. The user named the file, which is replaced whole or not
/// at all.
///
/// # Errors
/// If the kernel refuses.
pub fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = WholeFile::create(path, Readers::Anyone)?;
    file.write_all(content)?;
    file.finish()
}

/// A file that is written under an unpredictable name in the same folder, and renamed at the end.
/// So a reader finds the old or the new result, never a part of one. If it is dropped before,
/// nothing is left.
///
/// A pipe or a device is written directly.
#[derive(Debug)]
pub struct WholeFile {
    out: Out,
}

#[derive(Debug)]
enum Out {
    Beside { file: NamedTempFile, place: PathBuf },
    Special(File),
}

impl WholeFile {
    /// Begins a file at `path`, which the user named: a link there is followed. A replaced file
    /// keeps its permissions and its owner, unless it is only for its owner and belongs to somebody
    /// else. A new file belongs to the user who called sudo, if there is one.
    ///
    /// # Errors
    /// If the folder takes no new file.
    pub fn create(path: &Path, readers: Readers) -> io::Result<WholeFile> {
        match fs::metadata(path) {
            Ok(found) if found.is_file() => {
                WholeFile::beside(fs::canonicalize(path)?, Some(found), readers)
            }
            Ok(found) if !found.is_dir() => Ok(WholeFile {
                out: Out::Special(File::options().write(true).open(path)?),
            }),
            _ => WholeFile::beside(path.to_owned(), None, readers),
        }
    }

    /// Like `create`, for a name that the program chose: a link there is replaced, never followed.
    /// Otherwise the author of the link could make this program overwrite any file.
    ///
    /// # Errors
    /// If the folder takes no new file.
    pub fn create_here(path: &Path, readers: Readers) -> io::Result<WholeFile> {
        let found = fs::symlink_metadata(path);
        let replaced = found.ok().filter(Metadata::is_file);
        WholeFile::beside(path.to_owned(), replaced, readers)
    }

    fn beside(
        place: PathBuf,
        replaced: Option<Metadata>,
        readers: Readers,
    ) -> io::Result<WholeFile> {
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        let folder = place.parent().filter(|it| !it.as_os_str().is_empty());
        // Readers of data sets ignore names that begin with a dot. The umask applies.
        let file = Builder::new()
            .prefix(&format!(".{name}."))
            .suffix(".part")
            .permissions(Permissions::from_mode(readers.mode()))
            .tempfile_in(folder.unwrap_or(Path::new(".")))?;
        // A file for its owner only must not inherit the permissions of a stranger's file.
        let replaced = replaced.filter(|found| readers == Readers::Anyone || is_ours(found));
        if let Some(replaced) = &replaced {
            file.as_file().set_permissions(replaced.permissions())?;
        }
        let owner = match replaced {
            Some(replaced) => Some(FileOwner {
                uid: replaced.uid(),
                gid: replaced.gid(),
            }),
            None => FileOwner::of_sudo(),
        };
        if let Some(owner) = owner {
            owner.take(file.as_file());
        }
        Ok(WholeFile {
            out: Out::Beside { file, place },
        })
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// If the kernel refuses; the old file is still there then.
    pub fn finish(self) -> io::Result<()> {
        match self.out {
            Out::Beside { file, place } => {
                file.persist(place).map_err(|error| error.error)?;
                Ok(())
            }
            Out::Special(mut file) => file.flush(),
        }
    }

    fn file(&mut self) -> &mut File {
        match &mut self.out {
            Out::Beside { file, .. } => file.as_file_mut(),
            Out::Special(file) => file,
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use std::os::unix::fs::symlink;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_result_is_replaced_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let mut given_up = WholeFile::create(&path, Readers::Anyone).unwrap();
        given_up.write_all(b"ne").unwrap();
        drop(given_up);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["page.html"]);

        let mut new = WholeFile::create(&path, Readers::Anyone).unwrap();
        new.write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        new.finish().unwrap();
        assert_eq!(
            (fs::read(&path).unwrap().as_slice(), mode(&path)),
            (&b"new"[..], 0o640)
        );
        assert_eq!(names(folder.path()), ["page.html"]);
    }

    #[test]
    fn a_link_is_followed_if_its_user_named_it_and_replaced_if_the_program_did() {
        let folder = tempfile::tempdir().unwrap();
        let [other, link] = ["other", "link"].map(|name| folder.path().join(name));
        fs::write(&other, "theirs").unwrap();
        symlink(&other, &link).unwrap();
        let mut ours = WholeFile::create_here(&link, Readers::Owner).unwrap();
        ours.write_all(b"trace").unwrap();
        ours.finish().unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"theirs");
        assert_eq!(
            (fs::read(&link).unwrap().as_slice(), mode(&link)),
            (&b"trace"[..], 0o600)
        );

        fs::remove_file(&link).unwrap();
        symlink(&other, &link).unwrap();
        let mut named = WholeFile::create(&link, Readers::Anyone).unwrap();
        named.write_all(b"page").unwrap();
        named.finish().unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"page");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn a_device_is_written_as_it_is() {
        let mut null = WholeFile::create(Path::new("/dev/null"), Readers::Anyone).unwrap();
        null.write_all(b"gone").unwrap();
        null.finish().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
