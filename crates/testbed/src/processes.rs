//! Lists the running processes.

use std::fs;

/// A process that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Process ID.
    pub pid: u32,
    /// Name of the process's first thread, at most 15 bytes.
    pub name: String,
    /// Process ID of its parent.
    pub parent: u32,
}

/// Returns all running processes. A process that starts or ends during the call may be missing.
pub fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats = entries.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    stats.filter_map(|stat| of_stat(&stat)).collect()
}

/// Parses `PID (NAME) STATE PARENT …` (proc_pid_stat(5)). NAME may contain brackets and spaces.
/// Returns `None` for a zombie: a process that has ended, but whose parent has not waited for it
/// yet.
fn of_stat(stat: &str) -> Option<Process> {
    let (before, after) = stat.rsplit_once(") ")?;
    let (pid, name) = before.split_once(" (")?;
    let mut words = after.split(' ');
    let is_there = !matches!(words.next()?, "Z" | "X");
    is_there.then_some(Process {
        pid: pid.parse().ok()?,
        name: name.to_owned(),
        parent: words.next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::*;

    #[test]
    fn a_process_is_what_its_line_says_unless_it_has_ended() {
        let odd = Process {
            pid: 12,
            name: "a) S (b".to_owned(),
            parent: 3,
        };
        assert_eq!(of_stat("12 (a) S (b) R 3 12 0\n"), Some(odd));
        assert_eq!(of_stat("12 (stress-ng) Z 1 12 0\n"), None);
        let own = std::process::id();
        assert!(all().iter().any(|it| it.pid == own));
    }
}
