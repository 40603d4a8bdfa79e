//! Runs one command with limited memory, and measures its cost.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use nix::sys::resource::{UsageWho, getrusage};

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

/// Largest exit status of vmnoise. A shell reports a signal by a status above 128, and no command
/// here ends by SIGHUP (129).
const LARGEST_STATUS: i32 = 129;

/// Runs the command with this limit on its address space.
pub fn run(folder: &Path, line: &str, most_kib: u64) -> CommandCost {
    let folder_of_times = tempfile::tempdir().unwrap();
    let times = folder_of_times.path().join("times");
    let output = Command::new("sh")
        .current_dir(folder)
        .env("TIMES", &times)
        .arg("-c")
        .arg(format!(
            "ulimit -v {most_kib}; \"$0\" {line}; status=$?; times > \"$TIMES\"; exit $status"
        ))
        .arg(&BINARY.path)
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&output.stderr).into_owned();
    let is_clean = !reported.contains("panicked") && !reported.contains("memory allocation");
    let status = output.status.code();
    CommandCost {
        cpu: cpu_of_children(&fs::read_to_string(times).unwrap()),
        largest_kib: getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss(),
        printed: String::from_utf8_lossy(&output.stdout).into_owned(),
        has_ended_in_order: is_clean && status.is_some_and(|it| it <= LARGEST_STATUS),
        reported,
    }
}

/// Reads the times that a shell prints. Its second line has the CPU time of its children in user
/// space and in the kernel: `0m1.250000s 0m0.031250s`.
fn cpu_of_children(times: &str) -> Duration {
    let of_children = times.lines().nth(1).unwrap_or_default();
    let seconds = of_children.split_whitespace().map(|time| {
        let (minutes, seconds) = time.trim_end_matches('s').split_once('m').unwrap();
        60.0 * minutes.parse::<f64>().unwrap() + seconds.parse::<f64>().unwrap()
    });
    Duration::from_secs_f64(seconds.sum())
}

/// Other tests of this process have children, too. Their time must not count.
#[test]
fn the_time_of_a_command_is_only_its_own() {
    let others = "0m9.000000s 0m9.000000s\n1m1.250000s 0m0.031250s\n";
    assert_eq!(cpu_of_children(others), Duration::from_micros(61_281_250));
}
