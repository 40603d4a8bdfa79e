//! Names of cgroups, by the ids that BPF programs report. In the unified hierarchy, the id of a
//! cgroup is the inode number of its folder (kernfs, on 64-bit machines).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use vmnoise_events::Name;

use super::super::Host;
use super::{Occupant, Runtimes, occupant_of};

/// Possible mount points of the unified hierarchy: alone, or next to the hierarchies of version 1.
const MOUNTS: [&str; 2] = ["sys/fs/cgroup", "sys/fs/cgroup/unified"];
/// Minimum time between two scans. A scan reads each folder of the hierarchy, which takes some
/// milliseconds for a thousand folders.
const BETWEEN_WALKS: Duration = Duration::from_secs(10);
/// Maximum number of cgroups in the table. A full table is cleared, because many of its cgroups may
/// no longer exist.
const KNOWN: usize = 16_384;
/// Number of characters with which tools show the id of a container.
const SHORT_ID: usize = 12;

/// Table of cgroup names. A name is looked up when a caller requests it for the first time.
#[derive(Debug)]
pub struct CgroupNames {
    host: Host,
    known: BTreeMap<u64, Option<Name>>,
    /// Paths of all cgroups that the last scan found, by id.
    paths: BTreeMap<u64, String>,
    walked: Option<Instant>,
}

impl CgroupNames {
    /// Returns a table without names.
    pub fn new(host: Host) -> CgroupNames {
        CgroupNames {
            host,
            known: BTreeMap::new(),
            paths: BTreeMap::new(),
            walked: None,
        }
    }

    /// Returns the name of the cgroup with this id, if the name is known.
    pub fn get(&self, id: u64) -> Option<&Name> {
        self.known.get(&id)?.as_ref()
    }

    /// Looks up the names of these ids if they are still unknown. A name is that of the pod, the
    /// container or the unit in the cgroup. A new scan of the hierarchy starts only some time after
    /// the last scan. If the scan does not find a cgroup, the cgroup no longer exists and never
    /// gets a name.
    pub fn look_for(&mut self, ids: impl IntoIterator<Item = u64>) {
        let is_new = |id: &u64| !self.known.contains_key(id);
        let wanted: Vec<u64> = ids.into_iter().filter(is_new).collect();
        let is_missing = wanted.iter().any(|id| !self.paths.contains_key(id));
        let is_soon = |walked: Instant| walked.elapsed() < BETWEEN_WALKS;
        let walks = is_missing && !self.walked.is_some_and(is_soon);
        if walks {
            self.walked = Some(Instant::now());
            self.paths = self.host.cgroup_paths();
        }
        if self.known.len() + wanted.len() > KNOWN {
            self.known.clear();
        }
        let runtimes = Runtimes::under(&self.host.root);
        for id in wanted {
            let path = self.paths.get(&id);
            if path.is_some() || walks {
                let name = path.and_then(|path| called(path, &runtimes));
                self.known.insert(id, name.map(Name::from));
            }
        }
    }
}

impl Host {
    /// Returns the path of each cgroup of the unified hierarchy, by id; empty if there is no such
    /// hierarchy.
    fn cgroup_paths(&self) -> BTreeMap<u64, String> {
        let mounts = MOUNTS.map(|mount| self.root.join(mount));
        let is_unified = |mount: &&PathBuf| mount.join("cgroup.controllers").exists();
        let Some(mount) = mounts.iter().find(is_unified) else {
            return BTreeMap::new();
        };
        let mut paths = BTreeMap::new();
        if let Ok(root) = fs::metadata(mount) {
            paths.insert(root.ino(), "/".to_owned());
        }
        let mut folders = vec![mount.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    let path = entry.path();
                    paths.insert(entry.ino(), below(mount, &path));
                    folders.push(path);
                }
            }
        }
        paths
    }
}

fn below(mount: &Path, path: &Path) -> String {
    let path = path.strip_prefix(mount).unwrap_or(path);
    format!("/{}", path.display())
}

/// Returns a short name that operators of the host know; `None` for the root group.
fn called(path: &str, runtimes: &Runtimes) -> Option<String> {
    let Occupant {
        pod_uid,
        container,
        machine,
        unit,
        ..
    } = occupant_of(path);
    if let Some(container) = &container
        && let Some(labels) = runtimes.labels(&container.id)
    {
        return Some(format!("{}/{}", labels.namespace, labels.pod));
    }
    if let Some(uid) = pod_uid {
        return Some(format!("pod {uid}"));
    }
    if let Some(container) = container {
        let runtime = match container.runtime.as_str() {
            "" => "container",
            runtime => runtime,
        };
        return Some(format!("{runtime} {}", &container.id[..SHORT_ID]));
    }
    machine.or(unit).or((path != "/").then(|| path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(root: &Path, folder: &str) -> u64 {
        fs::metadata(root.join(folder)).unwrap().ino()
    }

    fn tree(folders: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let mount = root.path().join("sys/fs/cgroup");
        fs::create_dir_all(&mount).unwrap();
        fs::write(mount.join("cgroup.controllers"), "cpu\n").unwrap();
        for folder in folders {
            fs::create_dir_all(mount.join(folder)).unwrap();
        }
        root
    }

    #[test]
    fn a_cgroup_is_called_by_what_is_in_it() {
        let container = format!("system.slice/docker-{}.scope", "4f".repeat(32));
        let folders = [
            ("system.slice/backup.service", Some("backup.service")),
            (container.as_str(), Some("docker 4f4f4f4f4f4f")),
            (
                r"machine.slice/machine-qemu\x2d1\x2ddb.scope/libvirt",
                Some("db"),
            ),
            ("system.slice", Some("/system.slice")),
            ("", None),
        ];
        let root = tree(&folders.map(|(folder, _)| folder));
        let mut names = CgroupNames::new(Host::under(root.path()));
        let ids = folders.map(|(folder, _)| id(&root.path().join("sys/fs/cgroup"), folder));
        names.look_for(ids);
        for ((folder, name), id) in folders.iter().zip(ids) {
            assert_eq!(names.get(id).map(Name::as_str), *name, "{folder}");
        }
    }

    #[test]
    fn it_does_not_look_again_at_once() {
        let root = tree(&["a", "c"]);
        let mount = root.path().join("sys/fs/cgroup");
        let mut names = CgroupNames::new(Host::under(root.path()));
        names.look_for([id(&mount, "a")]);
        fs::create_dir(mount.join("b")).unwrap();
        names.look_for([id(&mount, "b")]);
        assert_eq!(names.get(id(&mount, "b")), None);
        // The cgroup existed before, but no caller had requested its name.
        names.look_for([id(&mount, "c")]);
        assert_eq!(names.get(id(&mount, "c")).map(Name::as_str), Some("/c"));
        names.walked = Instant::now().checked_sub(BETWEEN_WALKS);
        names.look_for([id(&mount, "b")]);
        assert_eq!(names.get(id(&mount, "b")).map(Name::as_str), Some("/b"));
    }

    #[test]
    fn a_machine_with_old_hierarchies_alone_has_no_names() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("sys/fs/cgroup/cpu/a")).unwrap();
        let mut names = CgroupNames::new(Host::under(root.path()));
        names.look_for([1, 2]);
        assert_eq!(names.get(1), None);
    }
}
