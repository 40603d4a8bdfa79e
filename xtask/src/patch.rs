//! Patches whose hunks have no line numbers. The text of a hunk determines where it applies.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// A patch: lines `key: …`, and a unified diff of one or more files.
#[derive(Debug)]
pub struct Patch {
    /// Name of the patch's file, without its suffix.
    pub name: String,
    text: String,
    files: Vec<(PathBuf, Vec<Edit>)>,
}

/// Whole lines that must occur once in a file, and the lines that replace them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Edit {
    from: String,
    to: String,
}

impl Patch {
    /// Returns all patches of a folder, sorted by name.
    pub fn all(folder: &Path) -> Result<Vec<Patch>> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
            paths.push(entry?.path());
        }
        paths.sort();
        let read = |path: &PathBuf| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            Patch::parse(&name, fs::read_to_string(path)?)
        };
        paths.iter().map(read).collect()
    }

    pub fn parse(name: &str, text: String) -> Result<Patch> {
        let mut files: Vec<(PathBuf, Vec<Edit>)> = Vec::new();
        for of_file in text.split("\n--- a/").skip(1) {
            let mut hunks = of_file.split("\n@@\n");
            let head = hunks.next().unwrap_or_default();
            let file = head
                .lines()
                .last()
                .and_then(|line| line.strip_prefix("+++ b/"));
            let file = file.with_context(|| format!("{name} names no file"))?;
            let edits: Vec<Edit> = hunks.map(Edit::parse).collect();
            ensure!(!edits.is_empty(), "{name} has no hunk for {file}");
            files.push((file.into(), edits));
        }
        ensure!(!files.is_empty(), "{name} names no file");
        Ok(Patch {
            name: name.to_owned(),
            text,
            files,
        })
    }

    /// Returns the text after this key at the start of a line. Fails without such a line.
    pub fn reported(&self, key: &str) -> Result<&str> {
        let reported = self.text.lines().find_map(|line| line.strip_prefix(key));
        reported.with_context(|| format!("{} has no line `{key}…`", self.name))
    }

    /// Returns the path and the changed text of each file that the patch changes.
    pub fn applied(&self, root: &Path) -> Result<Vec<(&Path, String)>> {
        let applied = |(file, edits): &(PathBuf, Vec<Edit>)| -> Result<String> {
            let path = root.join(file);
            let mut text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            for edit in edits {
                text = edit.applied(&text).with_context(|| {
                    let (name, file) = (&self.name, file.display());
                    format!("{name} does not apply to {file}: update the patch, or remove it")
                })?;
            }
            Ok(text)
        };
        let files = self.files.iter();
        files.map(|it| Ok((&*it.0, applied(it)?))).collect()
    }
}

impl Edit {
    fn parse(hunk: &str) -> Edit {
        let mut edit = Edit::default();
        for line in hunk.lines() {
            let (mark, rest) = line.split_at_checked(1).unwrap_or((" ", ""));
            let sides: &mut [&mut String] = match mark {
                "-" => &mut [&mut edit.from],
                "+" => &mut [&mut edit.to],
                _ => &mut [&mut edit.from, &mut edit.to],
            };
            for side in sides {
                **side += &format!("{rest}\n");
            }
        }
        edit
    }

    fn applied(&self, text: &str) -> Result<String> {
        let whole = |lines: &str| format!("\n{lines}");
        let text = whole(text);
        let places = text.matches(&whole(&self.from)).count();
        ensure!(places == 1, "found {places} times:\n{}", self.from);
        let changed = text.replacen(&whole(&self.from), &whole(&self.to), 1);
        Ok(changed[1..].to_owned())
    }
}

/// Names of files and folders that are not copied.
const LEFT_OUT: [&str; 2] = ["target", ".git"];

/// Makes `to` a copy of `from`. Unchanged files keep their modification time, because cargo
/// rebuilds newer files.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    for name in names(to)? {
        let old = to.join(&name);
        if !from.join(&name).exists() {
            let is_folder = old.is_dir();
            let removed = if is_folder {
                fs::remove_dir_all(&old)
            } else {
                fs::remove_file(&old)
            };
            removed.with_context(|| old.display().to_string())?;
        }
    }
    for name in names(from)? {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() {
            copy(&from, &to)?;
            continue;
        }
        let bytes = fs::read(&from).with_context(|| from.display().to_string())?;
        if fs::read(&to).ok().as_ref() != Some(&bytes) {
            fs::write(&to, bytes).with_context(|| to.display().to_string())?;
        }
    }
    Ok(())
}

/// Returns the names in a folder, without those that are not copied.
fn names(folder: &Path) -> Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        names.push(entry?.file_name());
    }
    names.retain(|name| LEFT_OUT.iter().all(|it| name != *it));
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hunk_is_found_by_what_it_says() {
        let patch = "fault: it subtracts\n--- a/x.rs\n+++ b/x.rs\n\
                     @@\n let a = 1;\n-a + b\n+a - b\n";
        let patch = Patch::parse("sign", patch.to_owned()).unwrap();
        assert_eq!(patch.reported("fault: ").unwrap(), "it subtracts");
        let [(file, edits)] = &patch.files[..] else {
            panic!("{patch:?}")
        };
        assert_eq!(file, Path::new("x.rs"));
        let text = "a + b\nlet a = 1;\na + b\nend\n";
        let faulty = "a + b\nlet a = 1;\na - b\nend\n";
        assert_eq!(edits[0].applied(text).unwrap(), faulty);
        assert!(edits[0].applied("let a = 1;\na + b + c\n").is_err());
        assert!(
            edits[0].applied(&text.repeat(2)).is_err(),
            "which of the two?"
        );
    }

    #[test]
    fn a_copy_has_what_there_is_now_and_keeps_what_was_built() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        fs::create_dir_all(from.join("args")).unwrap();
        fs::write(from.join("args/mod.rs"), "new").unwrap();
        fs::create_dir_all(to.join("target")).unwrap();
        fs::create_dir_all(to.join("gone")).unwrap();
        fs::write(to.join("args.rs"), "old").unwrap();
        copy(&from, &to).unwrap();
        let mut there = fs::read_dir(&to)
            .unwrap()
            .map(|it| it.unwrap().file_name())
            .collect::<Vec<_>>();
        there.sort();
        assert_eq!(there, ["args", "target"]);
        assert_eq!(fs::read_to_string(to.join("args/mod.rs")).unwrap(), "new");
    }

    #[test]
    fn a_patch_may_change_several_files() {
        let patch = "adds: a line\n--- a/x.rs\n+++ b/x.rs\n@@\n a\n+b\n--- a/y/z.h\n+++ b/y/z.h\n@@\n-c\n@@\n d\n+e\n";
        let patch = Patch::parse("two", patch.to_owned()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("y")).unwrap();
        fs::write(folder.path().join("x.rs"), "a\n").unwrap();
        fs::write(folder.path().join("y/z.h"), "c\nd\n").unwrap();
        let applied = patch.applied(folder.path()).unwrap();
        let expected = [("x.rs", "a\nb\n"), ("y/z.h", "d\ne\n")];
        let expected = expected.map(|(file, text)| (Path::new(file), text.to_owned()));
        assert_eq!(applied, expected);
    }
}
