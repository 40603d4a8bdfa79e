//! Threads of this machine, as /proc/TID shows them (proc(5)).

use std::{fs, io};

use vmnoise_events::Name;

use super::{Host, cpu_list};

/// A thread, and facts that identify it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Id of the thread. The id of a process's first thread equals the process id.
    pub tid: u32,
    /// Id of the process to which the thread belongs.
    pub pid: u32,
    /// Name of the thread.
    pub comm: Name,
    /// CPUs that the thread may use at this moment, ascending.
    pub allowed_cpus: Vec<u32>,
    /// Start time of the thread, in clock ticks since boot. It distinguishes this thread from later
    /// threads with the same id.
    pub started_ticks: u64,
}

/// State and CPU of a thread at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadPlace {
    /// Whether the thread is running or waiting for a CPU.
    pub runnable: bool,
    /// CPU on which the thread runs, or ran most recently.
    pub cpu: u32,
    /// Start time of the thread, in clock ticks since boot.
    pub started_ticks: u64,
}

impl Host {
    /// Returns the thread with this id.
    ///
    /// # Errors
    /// If there is no such thread. The message names the missing file.
    pub fn thread(&self, tid: u32) -> io::Result<Thread> {
        self.thread_at(&format!("proc/{tid}"), tid)
    }

    fn thread_at(&self, folder: &str, tid: u32) -> io::Result<Thread> {
        let status = self.text(&format!("{folder}/status"))?;
        let value = |key: &str| {
            let lines = status.lines().filter_map(|line| line.split_once(':'));
            let mut values = lines.filter(|(found, _)| *found == key);
            values.next().map(|(_, value)| value.trim())
        };
        let allowed = cpu_list::parse(value("Cpus_allowed_list").unwrap_or_default());
        let allowed = allowed.map_err(|error| invalid(tid, "status", &error.to_string()))?;
        let online = self.online_cpus()?;
        Ok(Thread {
            tid,
            pid: value("Tgid")
                .and_then(|pid| pid.parse().ok())
                .unwrap_or(tid),
            comm: name_in(&self.text(&format!("{folder}/comm"))?).into(),
            allowed_cpus: allowed
                .into_iter()
                .filter(|cpu| online.contains(cpu))
                .collect(),
            started_ticks: self.place_at(folder, tid)?.started_ticks,
        })
    }

    /// Returns the state of the thread with this id, and its current or most recent CPU.
    ///
    /// # Errors
    /// If there is no such thread. A thread that has ended but was not reaped counts as missing.
    pub fn place(&self, tid: u32) -> io::Result<ThreadPlace> {
        self.place_at(&format!("proc/{tid}"), tid)
    }

    fn place_at(&self, folder: &str, tid: u32) -> io::Result<ThreadPlace> {
        let stat = self.text(&format!("{folder}/stat"))?;
        // The name is in parentheses, and may itself contain parentheses. The state is field 3 of
        // proc(5).
        let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let fields: Vec<&str> = after_name.split(' ').collect();
        let number = |field: usize| fields.get(field - 3)?.parse().ok();
        let place = || {
            Some(ThreadPlace {
                runnable: fields[0] == "R",
                cpu: u32::try_from(number(39)?).ok()?,
                started_ticks: number(22)?,
            })
        };
        if let "Z" | "X" = fields[0] {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("thread {tid} has ended"),
            ));
        }
        place().ok_or_else(|| invalid(tid, "stat", "fields are missing"))
    }

    /// Returns all threads with this name, ascending by id. Threads that end during the search are
    /// missing.
    ///
    /// # Errors
    /// If /proc cannot be read.
    pub fn threads_named(&self, comm: &str) -> io::Result<Vec<Thread>> {
        let mut found = Vec::new();
        for pid in self.numbers_in("proc")? {
            for tid in self
                .numbers_in(&format!("proc/{pid}/task"))
                .unwrap_or_default()
            {
                let name = self.text(&format!("proc/{pid}/task/{tid}/comm"));
                if name.is_ok_and(|name| name_in(&name) == comm) {
                    found.extend(self.thread(tid));
                }
            }
        }
        found.sort_by_key(|thread| thread.tid);
        Ok(found)
    }

    /// Returns all threads of a process, ascending by id; empty if the process has ended.
    pub fn threads_of(&self, pid: u32) -> Vec<Thread> {
        let tids = self.numbers_in(&format!("proc/{pid}/task"));
        let mut tids = tids.unwrap_or_default();
        tids.sort_unstable();
        tids.into_iter()
            .filter_map(|tid| self.thread_at(&format!("proc/{pid}/task/{tid}"), tid).ok())
            .collect()
    }

    /// Returns all process ids, ascending; empty if /proc does not show the kernel's own ids.
    pub fn processes(&self) -> Vec<u32> {
        if !self.numbers_are_the_kernels() {
            return Vec::new();
        }
        let mut pids = self.numbers_in("proc").unwrap_or_default();
        pids.sort_unstable();
        pids
    }

    /// Returns the number of threads of a process.
    ///
    /// # Errors
    /// If there is no such process.
    pub fn thread_count(&self, pid: u32) -> io::Result<usize> {
        Ok(self.numbers_in(&format!("proc/{pid}/task"))?.len())
    }

    pub(super) fn numbers_in(&self, folder: &str) -> io::Result<Vec<u32>> {
        let entries = fs::read_dir(self.root.join(folder))?;
        let names = entries.flatten().map(|entry| entry.file_name());
        Ok(names
            .filter_map(|name| name.to_str()?.parse().ok())
            .collect())
    }
}

fn invalid(tid: u32, file: &str, why: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("/proc/{tid}/{file}: {why}"),
    )
}

/// Returns the name in the text of a `comm` file, without the newline that the kernel appends
/// (fs/proc/array.c). All characters before this newline belong to the name. So a name may end with
/// blanks or with newlines of its own.
pub(super) fn name_in(comm: &str) -> &str {
    comm.strip_suffix('\n').unwrap_or(comm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::tree;

    const STAT: &str = "7 (a) R b) S 1 7 7 0 -1 4194304 1 0 0 0 5 6 0 0 20 0 1 0 4711 0 0 0 0 0 \
                        0 0 0 0 0 0 0 0 0 0 17 3 50 1 0 0\n";

    fn machine(stat: &str) -> (tempfile::TempDir, Host) {
        tree(&[
            ("proc/7/stat", stat),
            (
                "proc/7/status",
                "Name:\ta) R b\nTgid:\t5\nCpus_allowed_list:\t0-3\n",
            ),
            ("proc/7/comm", "a) R b\n"),
            ("proc/5/task/7/comm", "a) R b\n"),
            ("proc/5/task/5/comm", "a) R\n"),
            ("sys/devices/system/cpu/online", "0-1\n"),
        ])
    }

    #[test]
    fn a_thread_is_found_by_a_name_that_looks_like_more() {
        let (_root, host) = machine(STAT);
        let found = host.threads_named("a) R b").unwrap();
        let expected = Thread {
            tid: 7,
            pid: 5,
            comm: "a) R b".into(),
            allowed_cpus: vec![0, 1],
            started_ticks: 4711,
        };
        assert_eq!(found, [expected]);
        assert_eq!(host.threads_named("a)").unwrap(), []);
        assert_eq!(host.thread_count(5).unwrap(), 2);
    }

    #[test]
    fn blanks_at_the_ends_of_a_name_belong_to_it() {
        let (root, host) = machine(STAT);
        for name in ["\ta \r", " ", "a\n"] {
            for file in ["proc/7/comm", "proc/5/task/7/comm"] {
                std::fs::write(root.path().join(file), format!("{name}\n")).unwrap();
            }
            assert_eq!(host.thread(7).unwrap().comm, Name::from(name), "{name:?}");
            assert_eq!(host.threads_named(name).unwrap().len(), 1, "{name:?}");
        }
    }

    #[test]
    fn where_it_is_and_whether_it_still_is() {
        let (_root, host) = machine(STAT);
        let asleep = ThreadPlace {
            runnable: false,
            cpu: 3,
            started_ticks: 4711,
        };
        assert_eq!(host.place(7).unwrap(), asleep);
        let (_root, host) = machine(&STAT.replace(") S", ") R"));
        assert!(host.place(7).unwrap().runnable);
        let (_root, host) = machine(&STAT.replace(") S", ") Z"));
        assert!(host.place(7).unwrap_err().to_string().contains("has ended"));
        let (_root, host) = machine("7 (a");
        assert!(
            host.place(7)
                .unwrap_err()
                .to_string()
                .contains("/proc/7/stat")
        );
        assert_eq!(host.place(8).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
