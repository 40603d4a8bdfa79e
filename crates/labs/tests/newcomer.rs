//! What a newcomer does first, on a machine that has nothing: the system is made by mmdebstrap, of this
//! machine's own release of Debian.

mod lab_full {
    mod newcomer {
        use std::fs;
        use std::path::{Path, PathBuf};
        use std::process::{Command, Output};

        const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        /// What reaches the network from here: the name server and the certificates that are trusted.
        const NETWORK: [&str; 2] = ["/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt"];
        const CERTIFICATES: [&str; 2] = ["SSL_CERT_FILE", "CARGO_HTTP_CAINFO"];

        /// `make` alone is added to what Debian calls essential, and what apt needs for the network.
        #[test]
        fn make_run_builds_on_a_machine_without_rust_and_says_that_it_has_no_kvm() {
            let system = System::bare();
            let made = system.run("make run");
            let reported = String::from_utf8_lossy(&made.stderr);
            assert!(reported.contains("the distribution's own"), "{reported}");
            assert!(reported.contains("/dev/kvm"), "{reported}");
            let program = "$(ls target/*/release/vmnoise)";
            let version = system.run(&format!("{program} --version"));
            assert!(version.stdout.starts_with(b"vmnoise "), "{reported}");
            // What is missing is reported by a status of its own, which make passes on as a number.
            assert!(reported.contains("Error 3"), "{reported}");
        }

        /// A system of Debian with this repository in it. It is gone when the test ends.
        struct System {
            folder: tempfile::TempDir,
        }

        impl System {
            fn bare() -> System {
                // Beside what else is built: a folder for temporary files may be in memory.
                let target = Path::new(REPOSITORY).join("target");
                let folder = tempfile::tempdir_in(target).unwrap();
                let root = folder.path().join("root");
                let release = fs::read_to_string("/etc/os-release").unwrap();
                let suite = release
                    .lines()
                    .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
                    .unwrap();
                let mut make = Command::new("mmdebstrap");
                make.args(["--variant=apt", "--include=ca-certificates,make", "--quiet"])
                    .arg(suite)
                    .arg(&root)
                    .args(sources());
                let made = make.output().unwrap();
                assert!(made.status.success(), "{made:?}");
                for path in NETWORK {
                    fs::copy(path, root.join(&path[1..])).unwrap();
                }
                let cloned = Command::new("git")
                    .args(["clone", "--quiet", "--depth=1"])
                    .arg(format!("file://{REPOSITORY}"))
                    .arg(root.join("vmnoise"))
                    .output()
                    .unwrap();
                assert!(cloned.status.success(), "{cloned:?}");
                System { folder }
            }

            /// Runs a line in the repository. The system has a /proc of its own, the /sys of this machine, and no
            /// device of it but those that mmdebstrap makes.
            fn run(&self, line: &str) -> Output {
                const ENTER: &str =
                    r#"mount -t sysfs -o ro sysfs "$1/sys" && exec chroot "$1" /bin/sh -c "$2""#;
                let root = self.folder.path().join("root");
                let mut run = Command::new("unshare");
                run.args(["--mount", "--pid", "--fork"])
                    .arg(format!("--mount-proc={}", root.join("proc").display()))
                    .args(["/bin/sh", "-c", ENTER, "sh"])
                    .arg(&root)
                    .arg(format!("cd /vmnoise && {line}"))
                    .env_clear()
                    .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
                    .env("HOME", "/root")
                    .envs(CERTIFICATES.map(|name| (name, NETWORK[1])));
                run.output().unwrap()
            }
        }

        /// Where this machine's own packages come from.
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
    }
}
