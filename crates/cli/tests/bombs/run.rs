//! Runs one command with limited memory, and measures its cost.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// Cost and output of a command.
#[derive(Debug)]
pub struct CommandCost {
    /// CPU time, in the program and in the kernel.
    pub cpu: Duration,
    /// Peak memory of the largest command so far.
    pub largest_kib: i64,
    /// Output on stdout.
    pub printed: String,
    /// Output on stderr.
    pub reported: String,
    /// Whether the command ended by itself, with a result or an error message.
    pub has_ended_in_order: bool,
}

impl fmt::Display for CommandCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cpu_s, mib) = (self.cpu.as_secs_f64(), self.largest_kib >> 10);
        write!(f, "{cpu_s:>7.2} s {mib:>4} MiB so far")
    }
}

/// Program under test.
struct Binary {
    path: OsString,
    is_optimized: bool,
}

/// Binary under test: that of the environment variable, which must be a release binary. Without it,
/// the release binary of `cargo build`, if it is up to date, as in the gate, which builds it first.
/// Otherwise the binary that was built for this test.
static BINARY: LazyLock<Binary> = LazyLock::new(|| {
    let release = || released().map(PathBuf::into_os_string);
    match std::env::var_os("VMNOISE_BINARY").or_else(release) {
        Some(path) => Binary {
            path,
            is_optimized: true,
        },
        None => Binary {
            path: env!("CARGO_BIN_EXE_vmnoise").into(),
            is_optimized: !cfg!(debug_assertions),
        },
    }
});

/// Returns whether the binary is a release binary.
pub fn is_optimized() -> bool {
    BINARY.is_optimized
}

/// Returns the release binary, if none of its sources is newer. Cargo lists the sources in a file
/// next to it: `BINARY: SOURCE SOURCE`.
fn released() -> Option<PathBuf> {
    let profiles = Path::new(env!("CARGO_BIN_EXE_vmnoise"))
        .parent()?
        .parent()?;
    let binary = profiles.join("release/vmnoise");
    let built = changed(&binary)?;
    let listed = std::fs::read_to_string(binary.with_extension("d")).ok()?;
    // A space in a path is escaped as in make.
    let listed = listed.replace("\\ ", "\0");
    let (_, sources) = listed.split_once(": ")?;
    let mut sources = sources.split_whitespace().map(|it| it.replace('\0', " "));
    let is_newer =
        sources.all(|source| changed(source.as_ref()).is_some_and(|changed| changed <= built));
    is_newer.then_some(binary)
}

fn changed(file: &Path) -> Option<SystemTime> {
    file.metadata().ok()?.modified().ok()
}

/// Runs the command with this limit on its address space.
pub fn run(folder: &Path, line: &str, most_kib: u64) -> CommandCost {
    /// The kernel reports the use of all children together, so only one may run.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = children();
    let output = Command::new("sh")
        .current_dir(folder)
        .arg("-c")
        .arg(format!("ulimit -v {most_kib}; exec \"$0\" {line}"))
        .arg(&BINARY.path)
        .output()
        .unwrap();
    let after = children();
    let reported = String::from_utf8_lossy(&output.stderr).into_owned();
    let is_clean = !reported.contains("panicked") && !reported.contains("memory allocation");
    CommandCost {
        cpu: cpu(&after) - cpu(&before),
        largest_kib: after.max_rss(),
        printed: String::from_utf8_lossy(&output.stdout).into_owned(),
        // Without an exit code, a signal ended it.
        has_ended_in_order: is_clean && output.status.code().is_some(),
        reported,
    }
}

fn children() -> Usage {
    getrusage(UsageWho::RUSAGE_CHILDREN).unwrap()
}

fn cpu(usage: &Usage) -> Duration {
    let all = usage.user_time() + usage.system_time();
    Duration::from_micros(all.num_microseconds().unsigned_abs())
}
