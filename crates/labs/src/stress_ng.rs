//! stress-ng as a load.

use crate::processes;

/// Its program.
pub const PROGRAM: &str = "stress-ng";
/// The names of its processes that work, one for each thing that it is told to do, as the kernel cuts them.
const WORKERS: [&str; 3] = ["stress-ng-switc", "stress-ng-timer", "stress-ng-vm"];

/// The command by which it makes system calls and interrupts on a CPU, at ordinary priority and until it is ended:
/// tasks that switch to each other, a timer of 5 kHz, and memory that is mapped and written. Its temporary files are
/// in this folder.
pub fn command(cpu: u32, folder: &str) -> String {
    format!(
        "{PROGRAM} -q --temp-path {folder} --switch 1 --timer 1 --timer-freq 5000 --vm 1 --taskset {cpu}"
    )
}

/// Whether the one that is this process has begun all that it was told to do, and none of that has ended.
pub fn is_at_work(pid: u32) -> bool {
    let all = processes::all();
    WORKERS.iter().all(|worker| {
        let mut children = all.iter().filter(|it| it.parent == pid);
        children.any(|it| it.name == *worker)
    })
}
