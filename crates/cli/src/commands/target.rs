//! The threads that `--pid` and `--comm` name.

use anyhow::{Context, Result, bail};
use vmnoise_console::say;
use vmnoise_console::status::UsageError;
use vmnoise_host::{Host, Thread};

use crate::args::OsnoiseCommon;

/// Returns the threads to observe, sorted by their CPUs; `None` if no thread is named. No two of
/// these threads may use the same CPU.
///
/// # Errors
/// If there is no such thread, or if two of them may use the same CPU.
pub fn threads(arguments: &OsnoiseCommon) -> Result<Option<Vec<Thread>>> {
    let host = Host::here();
    match (arguments.pid, &arguments.comm) {
        (Some(pid), _) => by_id(&host, pid).map(|thread| Some(vec![thread])),
        (None, Some(comm)) => by_name(&host, comm).map(Some),
        (None, None) => Ok(None),
    }
}

fn by_id(host: &Host, pid: u32) -> Result<Thread> {
    let thread = host
        .thread(pid)
        .with_context(|| format!("no thread has the id {pid}; `ps -eLo tid,comm` lists them"))?;
    let count = host.thread_count(pid).unwrap_or(1);
    if thread.pid == pid && count > 1 {
        say::say(format_args!(
            "process {pid} has {count} threads, and vmnoise observes only the first ({pid}); \
             `ls /proc/{pid}/task` lists the thread ids for --pid"
        ));
    }
    Ok(thread)
}

fn by_name(host: &Host, comm: &str) -> Result<Vec<Thread>> {
    let own = std::process::id();
    let mut threads = host.threads_named(comm).context("looking for threads")?;
    threads.retain(|thread| thread.pid != own);
    if threads.is_empty() {
        bail!(
            "no thread is called `{comm}`; names have 15 characters at most, and \
             `ps -eLo tid,comm` lists them"
        );
    }
    threads.sort_by(|a, b| a.allowed_cpus.cmp(&b.allowed_cpus));
    for (index, thread) in threads.iter().enumerate() {
        let shared = |&cpu: &u32| {
            let mut others = threads[..index].iter();
            others.any(|other| other.allowed_cpus.contains(&cpu))
        };
        if let Some(cpu) = thread.allowed_cpus.iter().copied().find(shared) {
            return Err(UsageError(ambiguous(&threads, comm, cpu)).into());
        }
    }
    Ok(threads)
}

fn ambiguous(threads: &[Thread], comm: &str, cpu: u32) -> String {
    let both = threads
        .iter()
        .filter(|thread| thread.allowed_cpus.contains(&cpu));
    let ids: Vec<String> = both.map(|thread| thread.tid.to_string()).collect();
    format!(
        "more than one thread called `{comm}` may use CPU {cpu}: {}; name one with --pid, or \
         bind each to its own CPU (taskset)",
        ids.join(", ")
    )
}
