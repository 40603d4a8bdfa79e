//! Files of a machine, or of a tree that was made up.

use std::fs;
use std::io;
use std::path::PathBuf;

use vmnoise_tracer::host::cpu_list;

/// A machine, and which of its CPUs are in question.
#[derive(Debug, Clone)]
pub struct Machine {
    root: PathBuf,
    /// The CPUs that are to be quiet, ascending.
    pub cpus: Vec<u32>,
    /// All others that are online, ascending.
    pub others: Vec<u32>,
}

/// What a file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// This, without the white space around it.
    Text(String),
    /// There is no such file: this kernel has no such setting.
    Absent,
    /// It is there, and this process may not read it.
    Denied,
}

/// One file of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Without the `/` before it.
    pub(crate) path: String,
    /// What stood in the place of `*`, or the folder of a CPU; empty where the pattern had neither.
    pub(crate) instance: String,
}

impl Machine {
    /// The machine whose `proc` and `sys` are below `root`.
    ///
    /// # Errors
    /// If it does not say which CPUs are online.
    pub fn under(root: impl Into<PathBuf>, cpus: &[u32]) -> io::Result<Machine> {
        let root = root.into();
        let online = fs::read_to_string(root.join("sys/devices/system/cpu/online"))?;
        let online = cpu_list::parse(online.trim()).map_err(io::Error::other)?;
        Ok(Machine {
            root,
            cpus: cpus.to_vec(),
            others: online
                .into_iter()
                .filter(|cpu| !cpus.contains(cpu))
                .collect(),
        })
    }

    /// The version of its kernel, as far as it is numbers.
    pub(crate) fn kernel(&self) -> Vec<u32> {
        match self.read("proc/sys/kernel/osrelease") {
            Said::Text(release) => numbers(&release),
            _ => Vec::new(),
        }
    }

    pub(crate) fn read(&self, path: &str) -> Said {
        match fs::read_to_string(self.root.join(path)) {
            Ok(text) => Said::Text(text.trim().to_owned()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Said::Denied,
            Err(_) => Said::Absent,
        }
    }

    /// All files of a pattern that are there, in the order of their numbers or names.
    pub(crate) fn files(&self, pattern: &str) -> Vec<Found> {
        if pattern.contains("{cpu}") {
            let of_cpu = |cpu: &u32| Found {
                path: pattern.replace("{cpu}", &cpu.to_string()),
                instance: format!("cpu{cpu}"),
            };
            return self.cpus.iter().map(of_cpu).collect();
        }
        let Some((before, behind)) = pattern.split_once('*') else {
            let (path, instance) = (pattern.to_owned(), String::new());
            return vec![Found { path, instance }];
        };
        let mut names = self.folders(before);
        names.sort_by_key(|name| (name.parse::<u32>().unwrap_or(u32::MAX), name.clone()));
        let of_name = |name: String| Found {
            path: format!("{before}{name}{behind}"),
            instance: name,
        };
        names.into_iter().map(of_name).collect()
    }

    /// The folders in a folder.
    pub(crate) fn folders(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(folder)).into_iter().flatten();
        let folders = entries.flatten().filter(|entry| entry.path().is_dir());
        folders
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect()
    }
}

/// `6.12.9-rt` as 6, 12, 9.
pub(crate) fn numbers(version: &str) -> Vec<u32> {
    let plain = version
        .split(|it: char| !it.is_ascii_digit() && it != '.')
        .next();
    let parts = plain.unwrap_or_default().split('.');
    parts.map_while(|part| part.parse().ok()).collect()
}
