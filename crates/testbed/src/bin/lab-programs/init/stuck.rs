//! Reports on the console where in the kernel every thread waits.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// Reports all threads except kernel threads: name, state, and the kernel stack where they sleep
/// (proc_pid_stack(5)). Leaves out threads that end during the report.
pub fn report_threads() {
    for process in below(Path::new("/proc")) {
        let of_user = read_to_string(process.join("cmdline")).is_ok_and(|line| !line.is_empty());
        if !of_user {
            continue;
        }
        for thread in below(&process.join("task")) {
            let status = read_to_string(thread.join("status")).unwrap_or_default();
            let reported = |word: &&str| {
                ["Name:", "State:", "Pid:", "Cpus_allowed_list:"]
                    .iter()
                    .any(|key| word.starts_with(key))
            };
            let reported: Vec<&str> = status.lines().filter(reported).collect();
            eprintln!("{}", reported.join(" ").replace('\t', ""));
            eprint!(
                "{}",
                read_to_string(thread.join("stack")).unwrap_or_default()
            );
        }
    }
}

/// Returns the entries of this folder whose names are numbers.
fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let numbered = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
    };
    entries.map(|entry| entry.path()).filter(numbered).collect()
}
