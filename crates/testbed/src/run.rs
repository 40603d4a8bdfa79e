//! Runs the built binary as a user would.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::schedstat;

/// Maximum time of any operation before it counts as hung. Operations usually take much less.
const BACKSTOP: Duration = Duration::from_secs(60);

/// Returns the path of the release binary that `make build` makes.
///
/// # Panics
/// If the binary is not built.
pub fn binary() -> PathBuf {
    find_binary()
        .expect("the release binary is built: run `cargo build --release -p vmnoise` first")
}

/// Returns [`binary`], or `None` if it is not built.
pub fn find_binary() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("VMNOISE_BINARY") {
        return Some(path.into());
    }
    let target = target_folder();
    let triple = std::fs::read_dir(&target)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    triple
        .chain([target])
        .map(|folder| folder.join("release/vmnoise"))
        .find(|path| path.is_file())
        // In a lab all programs are in one folder.
        .or_else(|| lab_program("vmnoise").ok())
}

/// Returns the folder in which this source tree keeps built and fetched files. If there is no
/// source tree, returns the folder `target` next to the running program.
pub(crate) fn target_folder() -> PathBuf {
    let tree = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    match std::env::current_exe() {
        Ok(program) if !tree.is_dir() => program.with_file_name("target"),
        _ => tree.join("../../target"),
    }
}

/// Name of the file that contains all programs whose names begin with `lab-`.
pub(crate) const LAB_PROGRAMS: &str = "lab-programs";

/// Returns the path of a program that lies next to the calling program or in a folder above. The
/// programs `lab-*` are links to one file, and this function creates the link.
///
/// # Errors
/// If the program is not built, or the link cannot be created.
pub fn lab_program(name: &str) -> Result<PathBuf> {
    let is_link = name.starts_with("lab-") && name != LAB_PROGRAMS;
    let mut folder = std::env::current_exe()?;
    while folder.pop() {
        let path = folder.join(name);
        if !is_link && path.is_file() {
            return Ok(path);
        }
        if is_link && folder.join(LAB_PROGRAMS).is_file() {
            link(&path).with_context(|| path.display().to_string())?;
            return Ok(path);
        }
    }
    bail!("{name} is not built: run `cargo build -p vmnoise-testbed --bins` first")
}

/// Makes `path` a link to the lab programs. Other threads and processes may call this function at
/// the same time. Each renames a link with a name of its own to `path`, and the last link stays.
fn link(path: &Path) -> Result<()> {
    static LINKS: AtomicUsize = AtomicUsize::new(0);
    if std::fs::read_link(path).is_ok_and(|to| to == Path::new(LAB_PROGRAMS)) {
        return Ok(());
    }
    let number = LINKS.fetch_add(1, Ordering::Relaxed);
    let own = path.with_extension(format!("{}-{number}-link", std::process::id()));
    symlink(LAB_PROGRAMS, &own)?;
    std::fs::rename(&own, path)?;
    Ok(())
}

/// A running `vmnoise`.
#[derive(Debug)]
pub struct VmnoiseRun {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl VmnoiseRun {
    /// Starts `vmnoise` with these arguments.
    ///
    /// # Errors
    /// If `vmnoise` cannot be started.
    pub fn start(arguments: &[&str]) -> Result<VmnoiseRun> {
        VmnoiseRun::of(Command::new(binary()).args(arguments))
    }

    /// Starts `vmnoise` with this command.
    ///
    /// # Errors
    /// If `vmnoise` cannot be started.
    pub fn of(command: &mut Command) -> Result<VmnoiseRun> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("starting vmnoise")?;
        let stderr = BufReader::new(child.stderr.take().context("its stderr")?);
        Ok(VmnoiseRun { child, stderr })
    }

    /// Starts `vmnoise microvm` with JSON output, and returns when the guest measures.
    ///
    /// # Errors
    /// If `vmnoise` ends before.
    pub fn microvm(cpu: u32, arguments: &[&str]) -> Result<VmnoiseRun> {
        let cpu = cpu.to_string();
        let mut all = vec!["microvm", "--cpus", &cpu, "--format", "json"];
        all.extend(arguments);
        let mut run = VmnoiseRun::start(&all)?;
        run.wait_for("largest shares")?;
        Ok(run)
    }

    /// Starts `vmnoise osnoise` with JSON output, and returns when its thread on CPU `cpu` polls.
    /// This CPU must be the last of the requested CPUs.
    ///
    /// # Errors
    /// If `vmnoise` ends before, or its thread does not poll.
    pub fn osnoise(cpu: u32, arguments: &[&str]) -> Result<VmnoiseRun> {
        let mut all = vec!["osnoise", "--format", "json"];
        all.extend(arguments);
        let run = VmnoiseRun::start(&all)?;
        let thread = format!("vmnoise-spin{cpu}");
        let deadline = Instant::now() + BACKSTOP;
        while !schedstat::has_worked(run.pid(), &thread)? {
            if Instant::now() > deadline {
                bail!("{thread} does not poll");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(run)
    }

    /// Sends a signal to `vmnoise`.
    ///
    /// # Errors
    /// If `vmnoise` has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let process = Pid::from_raw(self.pid().cast_signed()).context("its process id")?;
        kill_process(process, signal).context("sending vmnoise a signal")
    }

    /// Reads stderr up to a line that contains `words`.
    fn wait_for(&mut self, words: &str) -> Result<()> {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            if self.stderr.read_line(&mut line)? == 0 {
                bail!("vmnoise ended before it said `{words}`: {seen}");
            }
            if line.contains(words) {
                return Ok(());
            }
            seen += &line;
        }
    }

    /// Returns the process ID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the thread ID of the first vCPU.
    ///
    /// # Errors
    /// If there is no vCPU.
    pub fn vcpu_tid(&self) -> Result<u32> {
        schedstat::threads(self.pid())?
            .into_iter()
            .find(|(_, comm)| comm.contains("vcpu"))
            .map(|(tid, _)| tid)
            .context("no vCPU thread")
    }

    /// Waits for the end of `vmnoise`. Returns its exit status, its stdout, and the rest of its
    /// stderr.
    ///
    /// # Errors
    /// If `vmnoise` does not end.
    pub fn output(mut self) -> Result<(Option<i32>, String, String)> {
        let mut stdout = self.child.stdout.take().context("its stdout")?;
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).map(|_| text)
        });
        let mut stderr = String::new();
        self.stderr.read_to_string(&mut stderr)?;
        let text = reader.join().ok().context("reading stdout")??;
        let deadline = Instant::now() + BACKSTOP;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok((status.code(), text, stderr));
            }
            if Instant::now() > deadline {
                bail!("vmnoise closed its output and does not end");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end of `vmnoise` and parses the JSON on its stdout.
    ///
    /// # Errors
    /// If `vmnoise` fails, or prints anything but one JSON value.
    pub fn summary(self) -> Result<Value> {
        let (status, stdout, stderr) = self.output()?;
        if status != Some(0) {
            bail!("vmnoise ended with {status:?}: {stderr}");
        }
        serde_json::from_str(&stdout).with_context(|| format!("not JSON: {stdout}"))
    }
}

impl Drop for VmnoiseRun {
    fn drop(&mut self) {
        // `vmnoise` may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a `vmnoise` command to its end.
///
/// # Errors
/// If `vmnoise` cannot be started.
pub fn run_to_end(arguments: &[&str]) -> Result<Output> {
    Command::new(binary())
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .context("starting vmnoise")
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn threads_that_link_one_program_at_the_same_time_do_not_disturb_each_other() {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..100 {
            let path = folder.path().join(format!("lab-{round}"));
            let begin = Barrier::new(4);
            std::thread::scope(|scope| {
                let link_it = || {
                    begin.wait();
                    link(&path)
                };
                let threads = [(); 4].map(|()| scope.spawn(link_it));
                for thread in threads {
                    thread.join().unwrap().unwrap();
                }
            });
            assert_eq!(std::fs::read_link(&path).unwrap(), Path::new(LAB_PROGRAMS));
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 100);
    }
}
