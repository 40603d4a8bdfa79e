//! Confines the writes of this process to its folders (landlock(7)).

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use landlock::{
    ABI, AccessFs, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus,
};
use vmnoise_export::{Readers, WholeFile};

use crate::say::say;

/// Confines the writes of this thread to these folders. Threads that this thread creates are
/// confined too. Reading stays allowed everywhere. Call this function while the process has only
/// one thread.
///
/// # Errors
/// If the kernel refuses. A kernel without Landlock is no error, and only causes a message.
pub(crate) fn confine_to(folders: &[PathBuf]) -> Result<()> {
    // The rights to change, create and remove files. Landlock leaves out rights that the kernel
    // does not know.
    let writes = AccessFs::from_write(ABI::V3);
    let allowed: BitFlags<AccessFs> =
        AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::MakeDir | AccessFs::RemoveFile;
    let confine = || {
        let mut rules = Ruleset::default().handle_access(writes)?.create()?;
        for folder in folders {
            rules = rules.add_rule(PathBeneath::new(PathFd::new(folder)?, allowed))?;
        }
        anyhow::Ok(rules.restrict_self()?.ruleset)
    };
    let status = confine().with_context(|| format!("confining writes to {folders:?}"))?;
    if status == RulesetStatus::NotEnforced {
        say(
            "writes are not confined to the folders of --summaries and --dumps: use a kernel with CONFIG_SECURITY_LANDLOCK",
        );
    }
    Ok(())
}

/// Checks that a file can be created in this folder after rights were dropped.
///
/// # Errors
/// If no file can be created there.
pub(crate) fn takes_files(folder: &Path) -> Result<()> {
    let trial = WholeFile::create_here(&folder.join("trial"), Readers::Owner);
    trial.map(drop).with_context(|| {
        format!(
            "{} cannot be written by this user without capabilities: name a folder that belongs to this user",
            folder.display()
        )
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use std::{fs, io, thread};

    use vmnoise_export::place;

    use super::*;

    #[test]
    fn nothing_is_written_beside_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let [ours, theirs] = ["ours", "theirs"].map(|name| folder.path().join(name));
        fs::create_dir(&ours).unwrap();
        fs::create_dir(&theirs).unwrap();
        fs::write(theirs.join("file"), "theirs").unwrap();
        // Only the new thread is confined, and not the thread of the test.
        let confined = thread::spawn(move || {
            vmnoise_rights::begin(None).unwrap();
            confine_to(std::slice::from_ref(&ours)).unwrap();
            place(&ours.join("a/b/file"), b"1", Readers::Anyone).unwrap();
            place(&ours.join("a/b/file"), b"2", Readers::Anyone).unwrap();
            assert_eq!(fs::read(ours.join("a/b/file")).unwrap(), b"2");
            let file = theirs.join("file");
            let refused = [
                fs::write(&file, "ours"),
                fs::write(theirs.join("new"), "ours"),
                fs::write(ours.join("a/../../theirs/new"), "ours"),
                fs::create_dir(theirs.join("folder")),
                fs::remove_file(&file),
                fs::rename(&file, theirs.join("other")),
                fs::hard_link(&file, ours.join("link")),
            ];
            let refused = refused.map(|tried| tried.unwrap_err().kind());
            assert_eq!(fs::read(file).unwrap(), b"theirs");
            refused
        });
        let refused = confined.join().unwrap();
        for kind in refused {
            // The kernel reports a link to another folder in the same way as a link to another
            // device.
            let is_refused = kind == io::ErrorKind::PermissionDenied;
            assert!(
                is_refused || kind == io::ErrorKind::CrossesDevices,
                "{refused:?}"
            );
        }
    }
}
