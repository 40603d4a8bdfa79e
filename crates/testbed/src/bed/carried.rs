//! Files of this machine that a lab carries, such as programs and the libraries that they need.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use super::apt::call;

/// A file of this machine that a lab carries.
#[derive(Debug, Clone)]
pub(super) struct Carried {
    /// Absolute path in the lab.
    pub inside: PathBuf,
    /// Path on this machine.
    pub from: PathBuf,
}

impl Carried {
    /// Names a file of this machine at `from`. In the lab, its path is `inside`.
    pub(super) fn new(inside: &str, from: &Path) -> Carried {
        Carried {
            inside: inside.into(),
            from: from.to_owned(),
        }
    }
}

/// Returns a shell, and the programs that the scripts of `vmnoise audit` and `make run` start.
pub(super) fn shell() -> Result<Vec<Carried>> {
    let programs = [
        "sh", "sed", "cut", "taskset", "renice", "chrt", "id", "mkdir", "rm",
    ];
    with_libraries(programs.map(|name| {
        let program = Path::new("/usr/bin").join(name);
        Carried::new(&format!("/bin/{name}"), &program)
    }))
}

/// Returns the compiler's driver and the programs that it starts. Their paths in the lab are the
/// same as here, so the driver finds these programs.
pub(super) fn compiler() -> Result<Vec<Carried>> {
    let driver = Path::new("/usr/bin/cc");
    let of_it = |name: &str| -> Result<PathBuf> {
        let asked = format!("-print-prog-name={name}");
        let path = call("/usr/bin/cc", &[&asked], Path::new("."))?;
        let path = PathBuf::from(path.trim());
        // The compiler prints a bare name for a program that it looks up in the PATH.
        Ok(if path.is_absolute() {
            path
        } else {
            Path::new("/usr/bin").join(path)
        })
    };
    let programs = [driver.to_owned(), of_it("cc1")?, of_it("as")?];
    let itself = |path: &Path| Carried::new(&path.to_string_lossy(), path);
    let mut files = with_libraries(programs.iter().map(|it| itself(it)))?;
    // The compiler reads this header before every file.
    files.push(itself(Path::new("/usr/include/stdc-predef.h")));
    Ok(files)
}

/// Returns these programs and their libraries, each file once.
fn with_libraries(programs: impl IntoIterator<Item = Carried>) -> Result<Vec<Carried>> {
    let mut files = BTreeMap::new();
    for own in programs {
        let libraries = libraries(&own.from, Path::new("/"))?.into_iter();
        let all = libraries.chain([own]);
        files.extend(all.map(|file| (file.inside.clone(), file)));
    }
    Ok(files.into_values().collect())
}

/// Returns the libraries of a program that was unpacked below `root`. A library that was unpacked
/// there comes from `root`, and every other library comes from the machine itself.
pub(super) fn libraries(program: &Path, root: &Path) -> Result<Vec<Carried>> {
    let folder = root.join("usr/lib/x86_64-linux-gnu");
    let first = format!("LD_LIBRARY_PATH={}", folder.display());
    let list = call(
        "env",
        &[&first, "ldd", &program.to_string_lossy()],
        Path::new("."),
    )?;
    ensure!(
        !list.contains("not found"),
        "{} lacks libraries: {list}",
        program.display()
    );
    let files = list.lines().filter_map(path_of_library).map(Path::new);
    Ok(files
        .map(|from| Carried {
            inside: Path::new("/").join(from.strip_prefix(root).unwrap_or(from)),
            from: from.to_owned(),
        })
        .collect())
}

/// Returns the path in a line of ldd(1); `None` for the vDSO, which has no file.
fn path_of_library(line: &str) -> Option<&str> {
    let line = line.trim();
    let (file, _) = line.rsplit_once(" (")?;
    let path = file.split_once(" => ").map_or(file, |(_, path)| path);
    path.starts_with('/').then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_a_file() {
        let line = "\tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f)";
        assert_eq!(
            path_of_library(line),
            Some("/lib/x86_64-linux-gnu/libz.so.1")
        );
        let loader = "\t/lib64/ld-linux-x86-64.so.2 (0x00007f)";
        assert_eq!(path_of_library(loader), Some("/lib64/ld-linux-x86-64.so.2"));
        let spaced = "\tliba.so => /tmp/a b/usr/lib/liba.so (0x00007f)";
        assert_eq!(path_of_library(spaced), Some("/tmp/a b/usr/lib/liba.so"));
        assert_eq!(path_of_library("\tlinux-vdso.so.1 (0x00007f)"), None);
    }
}
