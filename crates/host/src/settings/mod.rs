//! Settings that the header of a recording keeps of its machine, so that the machine can be audited
//! later or elsewhere.

mod file_list;
mod machine_files;

use std::io;
use std::time::{Duration, Instant};

use vmnoise_events::Settings;

pub use file_list::BOOT_ID;
pub use machine_files::{FileText, MachineFiles, MatchedFile, VmPlaceholder};

use self::file_list::FILES;
use super::Host;

/// Longest time that a run waits for the settings. A machine with thousands of interrupts needs
/// about 50 ms. Files that were not read in this time count as not readable.
const PATIENCE: Duration = Duration::from_millis(200);

impl Host {
    /// Returns the settings that a recording keeps of this machine, for an audit of any of its
    /// CPUs.
    ///
    /// # Errors
    /// If the online CPUs cannot be read.
    pub fn settings(&self) -> io::Result<Settings> {
        self.settings_within(PATIENCE)
    }

    /// Returns the same settings as [`settings`](Self::settings), as far as they can be read within
    /// `patience`.
    ///
    /// # Errors
    /// As for [`settings`](Self::settings).
    pub fn settings_within(&self, patience: Duration) -> io::Result<Settings> {
        let files = MachineFiles::kept(self.clone(), Instant::now() + patience);
        let cpus = files.online_cpus()?;
        for pattern in FILES {
            for file in files.matching(pattern, &cpus, &|_| Vec::new()) {
                if file.path.ends_with('/') {
                    files.folders(&file.path);
                } else {
                    files.read(&file.path);
                }
            }
        }
        Ok(files.into_settings())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::tree;

    #[test]
    fn each_cpu_interrupt_and_control_group_is_kept_and_what_is_missing_is_absent() {
        let (_root, host) = tree(&[
            ("sys/devices/system/cpu/online", "0-1\n"),
            (BOOT_ID, "6f\n"),
            ("proc/irq/24/effective_affinity_list", "1\n"),
            ("proc/irq/24/nvme0q1/x", ""),
            (
                "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                "powersave\n",
            ),
            (
                "sys/devices/system/cpu/cpu1/cpuidle/state2/latency",
                "133\n",
            ),
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/cpu.max", "max 100000\n"),
        ]);
        // A busy machine may delay this test longer than a run would wait.
        let settings = host.settings_within(Duration::from_secs(600)).unwrap();
        for (path, text) in [
            (BOOT_ID, Some("6f")),
            ("proc/irq/", Some("24")),
            ("proc/irq/24/", Some("nvme0q1")),
            ("proc/irq/24/effective_affinity_list", Some("1")),
            ("proc/irq/24/smp_affinity_list", None),
            (
                "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                Some("powersave"),
            ),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", None),
            (
                "sys/devices/system/cpu/cpu1/cpuidle/state2/latency",
                Some("133"),
            ),
            ("sys/fs/cgroup/a/cpu.max", Some("max 100000")),
            ("sys/fs/cgroup/a/b/cpu.max", None),
        ] {
            assert_eq!(settings.get(path), Some(text), "{path}");
        }
        assert_eq!(settings.get("proc/interrupts"), None);
    }

    #[test]
    fn what_is_not_read_in_time_is_unknown() {
        let (_root, host) = tree(&[("sys/devices/system/cpu/online", "0-1\n")]);
        assert!(host.settings_within(Duration::ZERO).is_err());
    }

    /// Prints how long a run would wait for the settings on this machine. There is no limit,
    /// because the machine's speed is unknown.
    #[test]
    fn here_it_is_read_in_time() {
        let begin = Instant::now();
        let settings = Host::here().settings().unwrap();
        let (took, count) = (begin.elapsed(), settings.iter().count());
        println!("{count} files in {took:?}");
        assert!(count > 10, "{settings:?}");
    }
}
