//! Tests vmnoise for a user who is not root, with the capabilities that docs/security.md names.

mod root {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::path::{Path, PathBuf};
    use std::process::{Command, Output};

    use serde_json::Value;
    use vmnoise_testbed::{binary, skipped};

    /// User ID of the user nobody.
    const NOBODY: u32 = 65534;

    /// Copies the program to a folder that belongs to user nobody.
    fn program() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder.path(), open.clone()).unwrap();
        chown(folder.path(), Some(NOBODY), None).unwrap();
        let program = folder.path().join("vmnoise");
        fs::copy(binary(), &program).unwrap();
        fs::set_permissions(&program, open).unwrap();
        (folder, program)
    }

    /// Runs the program as user nobody, without supplementary groups.
    fn by_nobody(program: &Path, line: &str) -> Output {
        Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(program)
            .args(line.split(' '))
            .current_dir(program.parent().unwrap())
            .output()
            .unwrap()
    }

    fn setcap(capabilities: &str, program: &Path) -> std::io::Result<bool> {
        let mut setcap = Command::new("setcap");
        let setcap = setcap.arg(format!("{capabilities}=ep")).arg(program);
        Ok(setcap.status()?.success())
    }

    /// Returns the capabilities that docs/security.md names.
    fn documented() -> String {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security.md");
        let page = fs::read_to_string(page).unwrap();
        let (_, line) = page.split_once("# setcap ").unwrap();
        line.split_once("=ep").unwrap().0.to_owned()
    }

    /// Returns whether the result says that interrupts and tasks of the host were recorded.
    fn witnessed(result: &Value) -> bool {
        let probe_statuses = result["rungs"].as_array().unwrap();
        let probe_status = |probe: &str| {
            probe_statuses
                .iter()
                .find(|probe_status| probe_status["probe"] == probe)
                .unwrap()
        };
        ["host interrupts", "host tasks"]
            .iter()
            .all(|probe| probe_status(probe)["rung"] == "tp_btf")
    }

    #[test]
    fn the_capabilities_of_the_file_do() {
        let (_folder, program) = program();
        let line = "osnoise -c 1 -d 500ms -P f:1 -o run.vmn --format json";
        // Without the capabilities, the program may not use a real-time policy or a probe.
        let without = by_nobody(&program, line);
        assert_eq!(without.status.code(), Some(3), "{without:?}");
        match setcap(&documented(), &program) {
            Ok(true) => {}
            Ok(false) => return skipped("this file system takes no capabilities of files"),
            Err(error) => return skipped(&format!("setcap of libcap2-bin: {error}")),
        }
        for line in [line, "timerlat -c 1 -d 500ms --format json"] {
            let with = by_nobody(&program, line);
            assert!(with.status.success(), "{with:?}");
            let result = serde_json::from_slice(&with.stdout).unwrap();
            assert!(witnessed(&result), "{line}: {result}");
        }
        let counted = by_nobody(&program, "exits -d 500ms --format json");
        let is_module = Path::new("/sys/kernel/btf/kvm").exists();
        let needs_more = is_module || !Path::new("/dev/kvm").exists();
        assert_eq!(counted.status.success(), !needs_more, "{counted:?}");
        let explained = by_nobody(&program, "explain run.vmn");
        assert!(explained.status.success(), "{explained:?}");
        // The capabilities do not allow the program to write files that the caller may not write.
        let of_root = tempfile::tempdir().unwrap();
        let page = of_root.path().join("page.html");
        let refused = by_nobody(&program, &format!("report run.vmn -o {}", page.display()));
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(!page.exists());
    }
}
