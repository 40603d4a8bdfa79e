//! One command, held to its memory, and what it cost.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// What a command came to.
#[derive(Debug)]
pub struct Cost {
    /// On a CPU, in the program and in the kernel.
    pub cpu: Duration,
    /// What the largest command so far had in memory at once.
    pub largest_kib: i64,
    /// What it printed.
    pub printed: String,
    /// What it said on stderr.
    pub reported: String,
    /// Whether it came to an end of its own making: a result, or a fault that it names.
    pub has_ended_in_order: bool,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cpu_s, mib) = (self.cpu.as_secs_f64(), self.largest_kib >> 10);
        write!(f, "{cpu_s:>7.2} s {mib:>4} MiB so far")
    }
}

/// The program that is tried.
struct Binary {
    path: OsString,
    is_optimized: bool,
}

/// The one that this variable names, which is taken to be a release binary; or that of
/// `cargo build --release` if it is of these sources, as in the gate, which builds it first; or the
/// one that was built for this test.
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

/// Whether it is a release binary.
pub fn is_optimized() -> bool {
    BINARY.is_optimized
}

/// The release binary, if it was built since any of its sources changed. Cargo lists these beside
/// it: `BINARY: SOURCE SOURCE`.
fn released() -> Option<PathBuf> {
    let profiles = Path::new(env!("CARGO_BIN_EXE_vmnoise"))
        .parent()?
        .parent()?;
    let binary = profiles.join("release/vmnoise");
    let built = changed(&binary)?;
    let listed = std::fs::read_to_string(binary.with_extension("d")).ok()?;
    // A space in a path is escaped, as make reads it.
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

/// Runs it with no more memory than this, its address space counted.
pub fn run(folder: &Path, line: &str, most_kib: u64) -> Cost {
    /// What children used is told of all of them together.
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
    Cost {
        cpu: cpu(&after) - cpu(&before),
        largest_kib: after.max_rss(),
        printed: String::from_utf8_lossy(&output.stdout).into_owned(),
        // Without a code a signal ended it.
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
