//! Checks whether the requested CPUs can be measured.

use std::io;

use super::{Host, cpu_list};

/// Reason why the requested CPUs cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum CpuError {
    /// The machine has no such CPU.
    #[error("CPU {0} does not exist; this machine has {1}")]
    Absent(u32, String),
    /// The CPU is offline.
    #[error(
        "CPU {0} is offline; choose from {1}, or \
         `echo 1 > /sys/devices/system/cpu/cpu{0}/online` first"
    )]
    Offline(u32, String),
    /// This process may not use the CPU.
    #[error("CPU {0} is outside the cpuset or affinity of the workload; it may use {1}")]
    Forbidden(u32, String),
    /// The lists of CPUs cannot be read.
    #[error("{0}; mount /proc and /sys")]
    Unreadable(#[from] io::Error),
}

impl Host {
    /// Checks that each requested CPU exists, is online, and is allowed for this process.
    ///
    /// # Errors
    /// An error for the first CPU that fails. It contains the list of CPUs that are possible.
    pub fn check_cpus(&self, requested: &[u32], allowed: &[u32]) -> Result<(), CpuError> {
        let present = self.present_cpus()?;
        let online = self.online_cpus()?;
        for &cpu in requested {
            if !present.contains(&cpu) {
                return Err(CpuError::Absent(cpu, cpu_list::format(&present)));
            }
            if !online.contains(&cpu) {
                return Err(CpuError::Offline(cpu, cpu_list::format(allowed)));
            }
            if !allowed.contains(&cpu) {
                return Err(CpuError::Forbidden(cpu, cpu_list::format(allowed)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::machine;

    #[test]
    fn each_refusal_says_what_is_allowed() {
        let (_root, host) = machine();
        let allowed = host.allowed_cpus().unwrap();
        host.check_cpus(&[1, 2], &allowed).unwrap();
        let refusal = |cpu| {
            host.check_cpus(&[1, cpu], &allowed)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(refusal(7), "CPU 7 does not exist; this machine has 0-3");
        assert!(
            refusal(3).starts_with("CPU 3 is offline; choose from 1-2,"),
            "{}",
            refusal(3)
        );
        assert_eq!(
            refusal(0),
            "CPU 0 is outside the cpuset or affinity of the workload; it may use 1-2"
        );
    }
}
