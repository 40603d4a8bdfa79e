//! Finds the processes of one test: its program, and all descendants. Each inherits a mark in its
//! environment. The mark remains if a parent ends before its child, or if a process starts its own
//! session.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Name of the environment variable that marks the processes of a test.
pub const MARK: &str = "VMNOISE_TEST_PROCESS";

/// Largest number of searches for remaining processes. A process may start another one while the
/// first is being killed.
const ROUNDS: usize = 20;

/// Number of lines of a stack that are shown.
const STACK_LINES: usize = 12;

/// Returns the ids of the live processes that have this mark, or that descend from such a process.
pub fn processes(mark: &str) -> BTreeSet<u32> {
    let wanted = format!("{MARK}={mark}");
    let all = every_process();
    let carries = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == wanted.as_bytes())
    };
    let mut found: BTreeSet<u32> = all.iter().map(|(pid, _)| *pid).filter(carries).collect();
    // A descendant without the mark was started with another environment.
    while let Some((pid, _)) = all
        .iter()
        .find(|(pid, parent)| found.contains(parent) && !found.contains(pid))
    {
        found.insert(*pid);
    }
    found
}

/// Returns the id and the parent's id of each live process. Zombies are left out, because they only
/// wait for their parent.
fn every_process() -> Vec<(u32, u32)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses, and may contain any character.
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        (fields.next()? != "Z").then_some((pid, fields.next()?.parse().ok()?))
    };
    pids.filter_map(parent).collect()
}

/// Kills all processes that have this mark. Returns the names of the processes that were still
/// alive.
pub fn end(mark: &str) -> Vec<String> {
    let mut ended = Vec::new();
    for round in 0..ROUNDS {
        let alive = processes(mark);
        if alive.is_empty() {
            break;
        }
        let named = alive.iter().map(|pid| format!("{} ({pid})", comm(*pid)));
        if round == 0 {
            ended.extend(named);
        }
        let numbers = alive.iter().map(u32::to_string);
        let mut kill = Command::new("kill");
        kill.arg("-KILL").args(numbers);
        // kill(1) reports an error if a process has already ended.
        let _ = kill.stdout(Stdio::null()).stderr(Stdio::null()).status();
        std::thread::sleep(Duration::from_millis(20));
    }
    ended
}

fn comm(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm"));
    name.map_or_else(|_| "?".into(), |name| name.trim_end().to_owned())
}

/// Describes what each thread of these processes does: its state, its current system call, and its
/// kernel stack (only for root). Adds its own stack if `eu-stack` of elfutils is installed.
pub fn stacks(mark: &str) -> String {
    let mut text = String::new();
    for pid in processes(mark) {
        let _ = writeln!(text, "process {pid} {}: {}", comm(pid), command_line(pid));
        let threads = fs::read_dir(format!("/proc/{pid}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            let file = |name: &str| {
                let said = fs::read_to_string(thread.path().join(name)).unwrap_or_default();
                said.trim_end().to_owned()
            };
            let stat = file("stat");
            let state = stat.rsplit_once(") ").map_or("?", |(_, rest)| &rest[..1]);
            let number = thread.file_name();
            let _ = writeln!(
                text,
                "  thread {} {} state {state} in {}, system call {}",
                number.display(),
                file("comm"),
                file("wchan"),
                file("syscall")
            );
            for line in file("stack").lines().take(STACK_LINES) {
                let _ = writeln!(text, "    kernel {line}");
            }
        }
        for line in user_stacks(pid).lines().take(STACK_LINES * 8) {
            let _ = writeln!(text, "    {line}");
        }
    }
    text
}

fn command_line(pid: u32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words)
        .replace('\0', " ")
        .trim_end()
        .to_owned()
}

/// Returns the user-space stacks of a process's threads; empty if `eu-stack` is missing or fails.
fn user_stacks(pid: u32) -> String {
    let mut reader = Command::new("timeout");
    reader.args(["--signal=KILL", "10", "eu-stack", "-p", &pid.to_string()]);
    let output = reader.stdin(Stdio::null()).output();
    let said = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&said).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The child process leaves its session and its parent, and ignores all signals that can be
    /// ignored.
    #[test]
    fn a_process_that_left_its_parent_is_found_and_ended() {
        let mark = format!("tree-{}", std::process::id());
        let script =
            "trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM; sleep 1000; :' & sleep 0.1";
        let mut shell = Command::new("sh");
        let status = shell.args(["-c", script]).env(MARK, &mark).status();
        assert!(status.unwrap().success());
        assert!(!processes(&mark).is_empty());
        assert!(stacks(&mark).contains("sleep"), "{}", stacks(&mark));
        let ended = end(&mark);
        assert!(
            ended.iter().any(|name| name.starts_with("sleep")),
            "{ended:?}"
        );
        assert_eq!(processes(&mark), BTreeSet::new());
    }

    #[test]
    fn a_process_with_another_mark_is_left_alone() {
        let mark = format!("other-{}", std::process::id());
        assert_eq!(processes(&mark), BTreeSet::new());
    }
}
