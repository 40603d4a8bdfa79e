//! Creates a Debian system of this machine's release with mmdebstrap. The system is deleted at the
//! end of the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Files that the system needs for the network: the name server, and the trusted certificates.
const NETWORK: [&str; 2] = ["/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt"];
const CERTIFICATES: [&str; 2] = ["SSL_CERT_FILE", "CARGO_HTTP_CAINFO"];
/// Folders in which dpkg and apt keep their state.
const BOOKS: [&str; 3] = ["./var/lib/dpkg", "./var/log", "./var/cache"];

pub struct System {
    folder: tempfile::TempDir,
}

impl System {
    /// Creates a system that contains Debian's essential packages, apt, and these packages.
    pub fn bare(packages: &[&str]) -> System {
        // The folder is in the build folder, because the folder for temporary files may be in
        // memory.
        let target = Path::new(REPOSITORY).join("target");
        let folder = tempfile::tempdir_in(target).unwrap();
        let root = folder.path().join("root");
        let release = fs::read_to_string("/etc/os-release").unwrap();
        let suite = release
            .lines()
            .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
            .unwrap();
        let mut make = Command::new("mmdebstrap");
        make.args(["--variant=apt", "--quiet"]);
        if !packages.is_empty() {
            make.arg(format!("--include={}", packages.join(",")));
        }
        make.arg(suite).arg(&root).args(sources());
        let made = make.output().unwrap();
        assert!(made.status.success(), "{made:?}");
        System { folder }
    }

    /// Returns the root folder of the system.
    pub fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// Clones this repository to /vmnoise in the system, and copies the files for the network.
    pub fn clone_repository(&self) {
        for path in NETWORK {
            let there = self.root().join(&path[1..]);
            fs::create_dir_all(there.parent().unwrap()).unwrap();
            fs::copy(path, there).unwrap();
        }
        let cloned = Command::new("git")
            .args(["clone", "--quiet", "--depth=1"])
            .arg(format!("file://{REPOSITORY}"))
            .arg(self.root().join("vmnoise"))
            .output()
            .unwrap();
        assert!(cloned.status.success(), "{cloned:?}");
    }

    /// Copies a file of this machine into the system, under this name.
    pub fn bring(&self, file: &Path, name: &str) {
        fs::copy(file, self.root().join(name)).unwrap();
    }

    /// Runs a line of shell in the system. The system has its own /proc, this machine's /sys, and
    /// only the devices that mmdebstrap created.
    pub fn run(&self, line: &str) -> Output {
        const ENTER: &str =
            r#"mount -t sysfs -o ro sysfs "$1/sys" && exec chroot "$1" /bin/sh -c "$2""#;
        let root = self.root();
        let mut run = Command::new("unshare");
        run.args(["--mount", "--pid", "--fork"])
            .arg(format!("--mount-proc={}", root.join("proc").display()))
            .args(["/bin/sh", "-c", ENTER, "sh"])
            .arg(&root)
            .arg(line)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", "/root")
            .envs(CERTIFICATES.map(|name| (name, NETWORK[1])));
        run.output().unwrap()
    }

    /// Runs a line of shell that must succeed, and returns its stdout.
    pub fn succeeds(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns all files of the system, without the state of dpkg and apt.
    pub fn files(&self) -> Vec<String> {
        let mut find = Command::new("find");
        find.arg(".").current_dir(self.root());
        for books in BOOKS {
            find.args(["-path", books, "-prune", "-o"]);
        }
        let found = find.arg("-print").output().unwrap();
        assert!(found.status.success(), "{found:?}");
        let found = String::from_utf8(found.stdout).unwrap();
        let mut files: Vec<String> = found.lines().map(str::to_owned).collect();
        files.sort_unstable();
        files
    }
}

/// Builds this repository's Debian package with `make deb`, and returns its path.
pub fn package() -> PathBuf {
    let mut make = Command::new("make");
    let made = make.arg("deb").current_dir(REPOSITORY).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let target = fs::read_dir(Path::new(REPOSITORY).join("target")).unwrap();
    let mut files = target.map(|entry| entry.unwrap().path());
    let is_package = |path: &PathBuf| path.extension().is_some_and(|it| it == "deb");
    files.find(is_package).expect("make deb made a package")
}

/// Returns the files that list the package sources of this machine.
fn sources() -> Vec<PathBuf> {
    let listed = fs::read_dir("/etc/apt/sources.list.d")
        .into_iter()
        .flatten();
    let listed = listed.filter_map(|entry| Some(entry.ok()?.path()));
    let listed = listed.filter(|path| {
        let name = path.file_name().unwrap_or_default();
        name == "debian.sources"
    });
    let single = PathBuf::from("/etc/apt/sources.list");
    let has_any = |path: &PathBuf| fs::metadata(path).is_ok_and(|it| it.len() > 0);
    [single].into_iter().chain(listed).filter(has_any).collect()
}
