//! Files that get their final name only when they are complete.

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
    /// All users that the umask allows, for pages and tables.
    Anyone,
    /// Only the file's owner, for traces, which name every task that ran.
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

/// Writes a complete file with these bytes. Creates missing folders.
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

/// Writes a result that anyone may read, at a path that the user named. The file is replaced as a
/// whole or not at all.
///
/// # Errors
/// If the kernel refuses.
pub fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = WholeFile::create(path, Readers::Anyone)?;
    file.write_all(content)?;
    file.finish()
}

/// A file that is written under an unpredictable name in the same folder, and renamed at the end.
/// So a reader finds either the old or the new content, never a part. If the value is dropped
/// earlier, the temporary file is removed.
///
/// Pipes and devices are written directly.
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
    /// Creates a file at a path that the user named. A link at this path is followed. A replaced
    /// file keeps its permissions and its owner. Exception: a file with [`Readers::Owner`] takes
    /// nothing from another user's file. A new file belongs to the user who called sudo, if there
    /// is one.
    ///
    /// # Errors
    /// If the folder does not allow a new file.
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

    /// Creates a file at a path that the program chose. A link at this path is replaced, not
    /// followed: whoever made the link could otherwise make vmnoise overwrite any file.
    ///
    /// # Errors
    /// If the folder does not allow a new file.
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
        // Programs that read data sets ignore names that begin with a dot. The umask applies to the
        // new file.
        let file = Builder::new()
            .prefix(&format!(".{name}."))
            .suffix(".part")
            .permissions(Permissions::from_mode(readers.mode()))
            .tempfile_in(folder.unwrap_or(Path::new(".")))?;
        // A file with [`Readers::Owner`] must not inherit the permissions of another user's file.
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

    /// Renames the file to its final name.
    ///
    /// # Errors
    /// If the kernel reports an error. The old file is then unchanged.
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
