//! Checks whether /proc shows the kernel's own process ids, which BPF programs report. In a
//! container with its own pid namespace, the same ids belong to other processes, or to none.

use std::fs;
use std::path::Path;

use super::Host;

/// Inode number of the initial pid namespace: PROC_PID_INIT_INO of include/linux/proc_ns.h.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

impl Host {
    /// Returns whether processes have the same ids in /proc as in the kernel.
    pub fn numbers_are_the_kernels(&self) -> bool {
        let namespace = fs::read_link(self.root.join("proc/self/ns/pid"));
        self.numbers_are_ours()
            && namespace.map_or(true, |namespace| namespace == Path::new(FIRST_NAMESPACE))
    }

    /// Returns whether /proc belongs to this process's own pid namespace. An invented /proc without
    /// `self` counts as such.
    pub fn numbers_are_ours(&self) -> bool {
        let own = self.root.join("proc/self");
        match fs::read_link(&own) {
            Ok(number) => number == Path::new(&std::process::id().to_string()),
            // The link `self` exists, but it has no target for a process outside of the namespace
            // of /proc.
            Err(_) => fs::symlink_metadata(&own).is_err(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn host(own: &str, namespace: &str) -> (tempfile::TempDir, Host) {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("proc").join(own).join("ns");
        fs::create_dir_all(&folder).unwrap();
        symlink(namespace, folder.join("pid")).unwrap();
        symlink(own, root.path().join("proc/self")).unwrap();
        let host = Host::under(root.path());
        (root, host)
    }

    #[test]
    fn a_number_is_the_kernels_in_the_first_namespace_alone() {
        let own = std::process::id().to_string();
        let (_root, first) = host(&own, FIRST_NAMESPACE);
        assert!(first.numbers_are_the_kernels() && first.numbers_are_ours());
        let (_root, container) = host(&own, "pid:[4026532701]");
        assert!(!container.numbers_are_the_kernels() && container.numbers_are_ours());
        // The container has mounted the machine's /proc.
        let (_root, mounted) = host("4711000", FIRST_NAMESPACE);
        assert!(!mounted.numbers_are_the_kernels() && !mounted.numbers_are_ours());
        let root = tempfile::tempdir().unwrap();
        assert!(Host::under(root.path()).numbers_are_the_kernels());
    }
}
