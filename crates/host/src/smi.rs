//! Finds the counter of system management interrupts (SMIs) of this machine.

use std::path::PathBuf;

use super::Host;

const PMU: &str = "sys/bus/event_source/devices/msr";

/// Numbers that identify a perf event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PmuEvent {
    /// Type of the PMU (`type` in perf_event_attr).
    pub pmu: u32,
    /// Number of the event in its PMU (`config` in perf_event_attr).
    pub config: u64,
}

/// Reason why there is no counter of SMIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoSmiCount {
    /// The machine is a guest. In a guest, MSR_SMI_COUNT counts only SMIs that the guest's own
    /// hypervisor injects (kvm_get_msr_common of arch/x86/kvm/x86.c).
    #[error("this machine is a guest, and cannot count the SMIs of the hardware")]
    Guest,
    /// The CPU has no such event. arch/x86/events/msr.c defines `smi` only for Intel's CPUs since
    /// Nehalem.
    #[error("perf has no event msr/smi for this CPU; only Intel CPUs count SMIs")]
    Cpu,
    /// The PMU exists, but its event or its type is not a number in the usual form.
    #[error("{PMU} has no event of the usual form")]
    Form,
}

impl Host {
    /// Returns the event of perf's `msr` PMU that counts SMIs. It reads MSR_SMI_COUNT (0x34).
    ///
    /// # Errors
    /// The reason why there is no such event.
    pub fn smi_event(&self) -> Result<PmuEvent, NoSmiCount> {
        if self.hypervisor().is_some() {
            return Err(NoSmiCount::Guest);
        }
        self.msr_event("smi")
    }

    /// Returns the file from which the registers of a CPU can be read (msr(4)). One of the
    /// registers is MSR_SMI_COUNT. Returns `None` on a guest, and if the CPU is not Intel's.
    pub fn smi_registers(&self, cpu: u32) -> Option<PathBuf> {
        let cpuinfo = self.text("proc/cpuinfo").ok()?;
        let counts = cpuinfo
            .lines()
            .filter_map(|line| line.split_once(':'))
            .any(|(key, vendor)| key.trim() == "vendor_id" && vendor.trim() == "GenuineIntel");
        let registers = self.root.join(format!("dev/cpu/{cpu}/msr"));
        (counts && self.hypervisor().is_none()).then_some(registers)
    }

    /// Returns the event of perf's `msr` PMU with this name.
    ///
    /// # Errors
    /// The reason why there is no such event.
    pub fn msr_event(&self, name: &str) -> Result<PmuEvent, NoSmiCount> {
        let event = self.line(&format!("{PMU}/events/{name}"));
        let event = event.map_err(|_| NoSmiCount::Cpu)?;
        let config = event.strip_prefix("event=0x");
        let config = config.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let pmu = self.line(&format!("{PMU}/type")).ok();
        let pmu = pmu.and_then(|number| number.parse().ok());
        let both = pmu.zip(config);
        both.map(|(pmu, config)| PmuEvent { pmu, config })
            .ok_or(NoSmiCount::Form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::tree;

    const TYPE: (&str, &str) = ("sys/bus/event_source/devices/msr/type", "14\n");

    fn with_event(text: &str) -> Result<PmuEvent, NoSmiCount> {
        let file = "sys/bus/event_source/devices/msr/events/smi";
        tree(&[TYPE, (file, text)]).1.smi_event()
    }

    #[test]
    fn the_event_is_the_one_the_kernel_names() {
        let (pmu, config) = (14, 4);
        assert_eq!(with_event("event=0x04\n"), Ok(PmuEvent { pmu, config }));
        assert_eq!(with_event("umask=1\n"), Err(NoSmiCount::Form));
    }

    #[test]
    fn registers_are_read_of_intels_cpus_on_bare_metal_alone() {
        let registers = |cpuinfo| {
            let (root, host) = tree(&[("proc/cpuinfo", cpuinfo)]);
            let file = host.smi_registers(3)?;
            Some(file.strip_prefix(root.path()).unwrap().to_owned())
        };
        let intel = registers("vendor_id\t: GenuineIntel\nflags\t\t: fpu\n");
        assert_eq!(intel, Some(PathBuf::from("dev/cpu/3/msr")));
        assert_eq!(registers("vendor_id\t: AuthenticAMD\n"), None);
        let guest = "vendor_id\t: GenuineIntel\nflags\t\t: hypervisor\n";
        assert_eq!(registers(guest), None);
    }

    #[test]
    fn other_cpus_and_guests_have_none() {
        let (_root, amd) = tree(&[TYPE]);
        assert_eq!(amd.smi_event(), Err(NoSmiCount::Cpu));
        let (_root, guest) = tree(&[TYPE, ("proc/cpuinfo", "flags\t\t: hypervisor\n")]);
        assert_eq!(guest.smi_event(), Err(NoSmiCount::Guest));
    }
}
