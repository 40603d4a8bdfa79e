//! Owner of a new file: the user who called sudo(8), if there is one.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::geteuid;

/// User id and group id of a file's owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileOwner {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl FileOwner {
    /// Returns the user who called sudo; `None` if vmnoise was not started by sudo.
    pub fn of_sudo() -> Option<FileOwner> {
        FileOwner::in_variables(|name| std::env::var(name).ok())
    }

    fn in_variables(value: impl Fn(&str) -> Option<String>) -> Option<FileOwner> {
        let number = |name| value(name)?.parse().ok();
        Some(FileOwner {
            uid: number("SUDO_UID")?,
            gid: number("SUDO_GID")?,
        })
    }

    /// Makes this user the owner of an open file. Only root can do this; a file of another user
    /// keeps its owner. An error is ignored, because the file's content is valid anyway.
    pub fn take(self, file: &File) {
        let _ = fchown(file, Some(self.uid), Some(self.gid));
    }
}

/// Returns whether a file belongs to this process or to the user who called sudo. Otherwise another
/// user may have put the file where vmnoise will write a secret.
pub fn is_ours(found: &Metadata) -> bool {
    let ours = [
        Some(geteuid().as_raw()),
        FileOwner::of_sudo().map(|owner| owner.uid),
    ];
    ours.contains(&Some(found.uid()))
}

/// Creates a folder and its missing parents. They belong to the user who called sudo, if there is
/// one.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    if let Some(above) = folder.parent() {
        make_folder(above)?;
    }
    match fs::create_dir(folder) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => return Ok(()),
        Err(error) => return Err(error),
    }
    if let Some(owner) = FileOwner::of_sudo() {
        // Opens the new folder itself. Fails if somebody has replaced it by a link.
        let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits();
        let mut options = File::options();
        let options = options.read(true).custom_flags(flags.cast_signed());
        owner.take(&options.open(folder)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_numbers_are_needed() {
        let owner = |uid: Option<&str>, gid: Option<&str>| {
            FileOwner::in_variables(|name| {
                let value = if name == "SUDO_UID" { uid } else { gid };
                value.map(str::to_owned)
            })
        };
        let (uid, gid) = (1000, 100);
        assert_eq!(
            owner(Some("1000"), Some("100")),
            Some(FileOwner { uid, gid })
        );
        for (uid, gid) in [
            (None, None),
            (Some("1000"), None),
            (Some("ann"), Some("100")),
            (Some("-1"), Some("100")),
        ] {
            assert_eq!(owner(uid, gid), None);
        }
    }
}
