//! Limits the idle states of CPUs while these CPUs are measured. A limit ends when its value is
//! dropped.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::keeper::Keeper;

/// File with which a process requests a wake-up latency (Documentation/power/pm_qos_interface.rst).
const DMA_LATENCY: &str = "/dev/cpu_dma_latency";

/// Reasons why the idle states of CPUs cannot be limited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The kernel refused a write to a file.
    #[error("cannot write {}: {}; run as root, on a kernel that has it", file.display(), io::Error::from_raw_os_error(*errno))]
    Refused {
        /// The file that vmnoise tried to write.
        file: PathBuf,
        /// The kernel's error number.
        errno: i32,
    },
    /// vmnoise could not start the process that switches the idle states on again.
    #[error("cannot start /bin/sh, which switches idle states on again if vmnoise is killed: {}", io::Error::from_raw_os_error(*errno))]
    Keeper {
        /// The kernel's error number.
        errno: i32,
    },
    /// This CPU has no idle state that can be switched off.
    #[error(
        "CPU {0} has no idle states to switch off in /sys (in a guest the host has them): leave out --deepest-idle-state"
    )]
    NoStates(u32),
}

fn refused(file: &Path, error: &io::Error) -> Error {
    Error::Refused {
        file: file.to_owned(),
        errno: error.raw_os_error().unwrap_or(0),
    }
}

/// Limit of the wake-up latency of all idle CPUs. The limit holds while this value lives.
#[derive(Debug)]
pub struct DmaLatencyRequest {
    _held: File,
}

impl DmaLatencyRequest {
    /// Requests a wake-up latency of at most `us` microseconds. With 0, idle CPUs do not sleep at
    /// all.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn hold(us: i32) -> Result<DmaLatencyRequest, Error> {
        let path = Path::new(DMA_LATENCY);
        let file = OpenOptions::new().write(true).open(path);
        let mut file = file.map_err(|error| refused(path, &error))?;
        file.write_all(&us.to_ne_bytes())
            .map_err(|error| refused(path, &error))?;
        Ok(DmaLatencyRequest { _held: file })
    }
}

/// Idle states that are switched off while this value lives. A helper process switches them on
/// again even after SIGKILL.
#[derive(Debug)]
pub struct IdleStates {
    _keeper: Keeper,
}

impl IdleStates {
    /// Switches off every idle state of these CPUs whose number is greater than `deepest`; -1
    /// switches off all states. States that were already off stay off after the drop.
    ///
    /// # Errors
    /// If a file could not be written, a CPU has no such state, or the helper did not start. In
    /// these cases no state stays switched off.
    pub fn limit(cpus: &[u32], deepest: i32) -> Result<IdleStates, Error> {
        IdleStates::limit_below(Path::new("/sys/devices/system/cpu"), cpus, deepest)
    }

    fn limit_below(root: &Path, cpus: &[u32], deepest: i32) -> Result<IdleStates, Error> {
        let mut files = Vec::new();
        for &cpu in cpus {
            let folder = root.join(format!("cpu{cpu}/cpuidle"));
            let entries = fs::read_dir(folder).map_err(|_| Error::NoStates(cpu))?;
            let names = entries.flatten().map(|entry| entry.path());
            let deeper = names.filter(|path| depth(path).is_some_and(|depth| depth > deepest));
            let is_on =
                |file: &PathBuf| fs::read_to_string(file).is_ok_and(|text| text.trim() == "0");
            files.extend(deeper.map(|path| path.join("disable")).filter(is_on));
        }
        // The helper starts before the first state is switched off, because this process may be
        // killed at any time.
        let keeper = Keeper::of(&files).map_err(|error| Error::Keeper {
            errno: error.raw_os_error().unwrap_or(0),
        })?;
        for file in &files {
            fs::write(file, "1").map_err(|error| refused(file, &error))?;
        }
        Ok(IdleStates { _keeper: keeper })
    }
}

/// Returns the number of an idle state, given the path of its folder; `None` for other folders.
fn depth(path: &Path) -> Option<i32> {
    let name = path.file_name()?.to_str()?;
    name.strip_prefix("state")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(root: &Path, disabled: [&str; 3]) {
        for (number, text) in disabled.iter().enumerate() {
            let folder = root.join(format!("cpu1/cpuidle/state{number}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("disable"), text).unwrap();
        }
    }

    fn disabled(root: &Path) -> Vec<String> {
        let file = |number| root.join(format!("cpu1/cpuidle/state{number}/disable"));
        let read = |number| fs::read_to_string(file(number)).unwrap();
        (0..3)
            .map(|number| read(number).trim().to_owned())
            .collect()
    }

    #[test]
    fn deeper_states_are_off_until_it_is_dropped() {
        let root = std::env::temp_dir().join(format!("vmnoise-idle-{}", std::process::id()));
        states(&root, ["0\n", "0\n", "1\n"]);
        let limited = IdleStates::limit_below(&root, &[1], 0).unwrap();
        assert_eq!(disabled(&root), ["0", "1", "1"]);
        drop(limited);
        assert_eq!(disabled(&root), ["0", "0", "1"], "as they were");
        let all = IdleStates::limit_below(&root, &[1], -1).unwrap();
        assert_eq!(disabled(&root), ["1", "1", "1"]);
        drop(all);

        let none = IdleStates::limit_below(&root, &[7], 0).unwrap_err();
        assert_eq!(none, Error::NoStates(7));
        fs::remove_dir_all(root).unwrap();
    }

    /// Name of the environment variable that tells the test process below which folder to use.
    const ROOT: &str = "VMNOISE_IDLE_ROOT";

    #[test]
    fn they_are_on_again_when_the_process_is_killed() {
        let root = std::env::temp_dir().join(format!("vmnoise-killed-{}", std::process::id()));
        states(&root, ["0\n", "0\n", "1\n"]);
        let this = "idle::tests::holds_them_off_if_it_is_told_to";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", this, "--nocapture"])
            .env(ROOT, &root)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let wait_for = |wanted: [&str; 3]| {
            let begin = std::time::Instant::now();
            while disabled(&root) != wanted {
                assert!(begin.elapsed().as_secs() < 60, "{:?}", disabled(&root));
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        };
        wait_for(["1", "1", "1"]);
        child.kill().unwrap();
        child.wait().unwrap();
        wait_for(["0", "0", "1"]);
        fs::remove_dir_all(root).unwrap();
    }

    /// The test process that the test above starts. Without the environment variable it does
    /// nothing.
    #[test]
    fn holds_them_off_if_it_is_told_to() {
        if let Some(root) = std::env::var_os(ROOT) {
            let _states = IdleStates::limit_below(Path::new(&root), &[1], -1).unwrap();
            std::thread::sleep(std::time::Duration::from_secs(600));
        }
    }
}
