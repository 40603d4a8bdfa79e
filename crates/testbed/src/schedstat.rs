//! Reads the scheduler's counts of a thread. Tests compare the times that `vmnoise` measures with
//! these counts.

use std::path::PathBuf;

use anyhow::{Context, Result};

/// Counts in `/proc/PID/task/TID/schedstat` (Documentation/scheduler/sched-stats.rst).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedstat {
    /// Time on a CPU, nanoseconds.
    pub on_cpu_ns: u64,
    /// Time runnable and waiting for a CPU, nanoseconds.
    pub run_delay_ns: u64,
    /// Number of times that the thread was given a CPU.
    pub slices: u64,
}

/// Reads the counts of a thread.
///
/// # Errors
/// If the thread has ended.
pub fn read(pid: u32, tid: u32) -> Result<Schedstat> {
    let path = format!("/proc/{pid}/task/{tid}/schedstat");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let mut numbers = text.split_whitespace().map(str::parse);
    match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(Ok(on_cpu_ns)), Some(Ok(run_delay_ns)), Some(Ok(slices))) => Ok(Schedstat {
            on_cpu_ns,
            run_delay_ns,
            slices,
        }),
        _ => anyhow::bail!("{path}: `{}` is no schedstat", text.trim()),
    }
}

/// Returns how often a thread was moved to another CPU: `se.nr_migrations` of `/proc/PID/sched`
/// (CONFIG_SCHED_DEBUG, which Debian's kernels have).
///
/// # Errors
/// If the thread has ended.
pub fn migrations(pid: u32, tid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/task/{tid}/sched");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("se.nr_migrations"));
    let number = line.and_then(|rest| rest.trim_matches([' ', ':']).parse().ok());
    number.with_context(|| format!("{path} has no se.nr_migrations"))
}

/// Returns the threads of a process. For each, returns its thread ID and its name.
///
/// # Errors
/// If the process has ended.
pub fn threads(pid: u32) -> Result<Vec<(u32, String)>> {
    let folder = format!("/proc/{pid}/task");
    let mut threads = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| folder.clone())? {
        let path: PathBuf = entry?.path();
        let tid = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.parse().ok());
        if let (Some(tid), Ok(comm)) = (tid, std::fs::read_to_string(path.join("comm"))) {
            threads.push((tid, comm.trim_end().to_owned()));
        }
    }
    Ok(threads)
}

/// CPU time in nanoseconds after which a thread has surely finished its setup.
const AT_WORK_NS: u64 = 100_000_000;

/// Returns whether a process has a thread of this name that has used at least 100 ms of CPU time.
///
/// # Errors
/// If the process has ended.
pub fn has_worked(pid: u32, name: &str) -> Result<bool> {
    let named = threads(pid)?.into_iter().find(|(_, comm)| comm == name);
    // A thread that has just ended has no times to read.
    let times = named.and_then(|(tid, _)| read(pid, tid).ok());
    Ok(times.is_some_and(|times| times.on_cpu_ns >= AT_WORK_NS))
}

/// Returns the state letter of a thread (proc(5)), or `None` if the thread has ended.
pub fn state(pid: u32, tid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Returns how often the threads of a process have left a CPU so far (proc_pid_status(5)).
///
/// # Errors
/// If the process has ended.
pub fn switches(pid: u32) -> Result<u64> {
    let mut all = 0;
    for (tid, _) in threads(pid)? {
        let status = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status"))?;
        let counts = status
            .lines()
            .filter(|line| line.contains("voluntary_ctxt_switches:"));
        let counts = counts.filter_map(|line| line.rsplit(['\t', ' ']).next()?.parse::<u64>().ok());
        all += counts.sum::<u64>();
    }
    Ok(all)
}

/// Returns whether a signal has stopped a thread, and the thread has left its CPU. The state alone
/// is not enough: the kernel changes it before the thread leaves its CPU (kernel/signal.c,
/// `do_signal_stop`). The file `syscall` of a thread reads `running` until the thread has left its
/// CPU (lib/syscall.c, since 2.6.27).
pub fn stands(pid: u32, tid: u32) -> bool {
    let call = || std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall"));
    state(pid, tid) == Some('T') && call().is_ok_and(|call| call != "running\n")
}
