//! Writes the trees of files with which rules are tested.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use crate::rule::FileTree;

/// Creates a machine with four CPUs, Linux 6.1 and these files. Two short names stand for many
/// files. `vm/PID` is the process of a VM, and its text is the VM's name. `task/PID/TID` is a
/// thread. Its text has fields separated by `; `: name, allowed CPUs, policy, priority, nice value
/// and flags (the numbers of proc(5)).
pub(crate) fn grown(tree: &FileTree) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| write(root.path(), path, text);
    write("sys/devices/system/cpu/online", "0-3\n");
    write("proc/sys/kernel/osrelease", "6.1.0\n");
    for (path, text) in tree {
        match path.split('/').collect::<Vec<_>>()[..] {
            ["vm", pid] => vm(root.path(), pid, text),
            ["task", pid, tid] => task(root.path(), pid, tid, text),
            _ => write(path, text),
        }
    }
    root
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn vm(root: &Path, pid: &str, name: &str) {
    write(root, &format!("proc/{pid}/comm"), "qemu-system-x86\n");
    let line = format!("qemu-system-x86_64\0-name\0guest={name}\0");
    write(root, &format!("proc/{pid}/cmdline"), &line);
    let files = root.join(format!("proc/{pid}/fd"));
    fs::create_dir_all(&files).unwrap();
    symlink("anon_inode:kvm-vm", files.join("9")).unwrap();
}

fn task(root: &Path, pid: &str, tid: &str, text: &str) {
    let fields: Vec<&str> = text.split("; ").collect();
    let [comm, cpus, policy, priority, nice, flags] = fields[..] else {
        panic!("{text}");
    };
    if pid == tid {
        write(root, &format!("proc/{pid}/comm"), &format!("{comm}\n"));
    }
    let folder = format!("proc/{pid}/task/{tid}");
    write(root, &format!("{folder}/comm"), &format!("{comm}\n"));
    let status = format!("Name:\t{comm}\nTgid:\t{pid}\nCpus_allowed_list:\t{cpus}\n");
    write(root, &format!("{folder}/status"), &status);
    // Indices are the field numbers of proc(5).
    let mut stat = vec!["0"; 53];
    for (field, text) in [
        (9, flags),
        (19, nice),
        (22, "4711"),
        (40, priority),
        (41, policy),
    ] {
        stat[field] = text;
    }
    let stat = format!("{tid} ({comm}) S {}\n", stat[4..].join(" "));
    write(root, &format!("{folder}/stat"), &stat);
}
