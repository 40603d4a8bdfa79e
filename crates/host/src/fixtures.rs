//! Invented machines for tests. Each machine is a tree of files in a temporary folder.
#![allow(clippy::unwrap_used, reason = "part of tests alone")]

use std::fs;

use crate::Host;

/// Writes a tree of files under a new temporary root. Returns the folder, and the machine of this
/// tree.
pub fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
    let root = tempfile::tempdir().unwrap();
    for (file, text) in files {
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let host = Host::under(root.path());
    (root, host)
}

/// Returns a machine with one QEMU process that has two vCPUs, and one process that is not a VMM.
pub fn machine_with_vm(debugfs: bool) -> (tempfile::TempDir, Host) {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let link = |path: &str, target: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    };
    write("proc/70/comm", "bash\n");
    link("proc/70/fd/0", "/dev/null");
    write("proc/71/comm", "qemu-system-x86\n");
    write(
        "proc/71/cmdline",
        "qemu-system-x86_64\0-name\0guest=web,debug-threads=on\0",
    );
    link("proc/71/fd/9", "anon_inode:kvm-vm");
    for (tid, comm) in [
        (71, "qemu-system-x86"),
        (80, "CPU 0/KVM"),
        (81, "CPU 1/KVM"),
    ] {
        write(&format!("proc/71/task/{tid}/comm"), &format!("{comm}\n"));
        let status = format!("Name:\t{comm}\nCpus_allowed_list:\t{}\n", tid - 78);
        write(&format!("proc/71/task/{tid}/status"), &status);
    }
    if debugfs {
        for (vcpu, tid) in [(0, 80), (1, 81), (2, 0)] {
            let file = format!("sys/kernel/debug/kvm/71-9/vcpu{vcpu}/pid");
            write(&file, &format!("{tid}\n"));
        }
    }
    let host = Host::under(root.path());
    (root, host)
}
