//! How deep CPUs may sleep while they are measured: what they do when idle is undone when
//! these values are dropped.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where processes ask for a latency (Documentation/power/pm_qos_interface.rst).
const DMA_LATENCY: &str = "/dev/cpu_dma_latency";

/// Why idle CPUs cannot be held as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The kernel refused a file.
    #[error("cannot write {}: {}; run as root, on a kernel that has it", file.display(), io::Error::from_raw_os_error(*errno))]
    Refused {
        /// The file.
        file: PathBuf,
        /// The kernel's error number.
        errno: i32,
    },
    /// No idle state can be switched off.
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

/// All CPUs promise to wake up within a time, for as long as this is there.
#[derive(Debug)]
pub struct DmaLatency {
    _held: File,
}

impl DmaLatency {
    /// Asks for a latency of so many microseconds; 0 is not to sleep at all.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn hold(us: i32) -> Result<DmaLatency, Error> {
        let path = Path::new(DMA_LATENCY);
        let file = OpenOptions::new().write(true).open(path);
        let mut file = file.map_err(|error| refused(path, &error))?;
        file.write_all(&us.to_ne_bytes())
            .map_err(|error| refused(path, &error))?;
        Ok(DmaLatency { _held: file })
    }
}

/// Idle states that are switched off.
#[derive(Debug, Default)]
pub struct IdleStates {
    switched_off: Vec<PathBuf>,
}

impl IdleStates {
    /// Switches off every state of these CPUs that is deeper than `deepest`; -1 is all of
    /// them. Those that were off already stay off afterwards.
    ///
    /// # Errors
    /// What there is in the way; no state is left switched off then.
    pub fn limit(cpus: &[u32], deepest: i32) -> Result<IdleStates, Error> {
        IdleStates::limit_below(Path::new("/sys/devices/system/cpu"), cpus, deepest)
    }

    fn limit_below(root: &Path, cpus: &[u32], deepest: i32) -> Result<IdleStates, Error> {
        let mut states = IdleStates::default();
        for &cpu in cpus {
            let folder = root.join(format!("cpu{cpu}/cpuidle"));
            let entries = fs::read_dir(folder).map_err(|_| Error::NoStates(cpu))?;
            let names = entries.flatten().map(|entry| entry.path());
            let deeper = names.filter(|path| depth(path).is_some_and(|depth| depth > deepest));
            for file in deeper.map(|path| path.join("disable")) {
                if fs::read_to_string(&file).is_ok_and(|text| text.trim() != "0") {
                    continue;
                }
                fs::write(&file, "1").map_err(|error| refused(&file, &error))?;
                states.switched_off.push(file);
            }
        }
        Ok(states)
    }
}

/// The number of a state by the name of its folder.
fn depth(path: &Path) -> Option<i32> {
    let name = path.file_name()?.to_str()?;
    name.strip_prefix("state")?.parse().ok()
}

impl Drop for IdleStates {
    fn drop(&mut self) {
        for file in &self.switched_off {
            // Nobody is left to be told.
            let _ = fs::write(file, "0");
        }
    }
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
}
