//! Runs the program stress-ng as a load.

use crate::processes;

/// Name of the program.
pub const PROGRAM: &str = "stress-ng";
/// Names of stress-ng's worker processes, one per kind of work, as the kernel truncates them.
const WORKERS: [&str; 3] = ["stress-ng-switc", "stress-ng-timer", "stress-ng-vm"];

/// Returns a command that makes system calls and interrupts on a CPU, at ordinary priority, until
/// someone ends it. Its tasks switch to each other, its timer runs at 5 kHz, and it maps and writes
/// memory. It writes temporary files to `folder`.
pub fn command(cpu: u32, folder: &str) -> String {
    format!(
        "{PROGRAM} -q --temp-path {folder} --switch 1 --timer 1 --timer-freq 5000 --vm 1 --taskset {cpu}"
    )
}

/// Returns whether this stress-ng process has a running worker of each kind.
pub fn is_at_work(pid: u32) -> bool {
    let all = processes::all();
    WORKERS.iter().all(|worker| {
        let mut children = all.iter().filter(|it| it.parent == pid);
        children.any(|it| it.name == *worker)
    })
}
