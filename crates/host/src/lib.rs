//! Facts about this machine from /proc and /sys. A [`Host`] has the root folder of these files, so
//! that tests can read an invented tree of files.

#![forbid(unsafe_code)]

mod cgroups;
mod clock_event;
pub mod cpu_list;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
mod hypervisor;
mod kvm_debugfs;
mod kvm_module;
mod kvm_pvm;
mod lapic_timer;
mod pid_numbers;
mod posted;
mod pressure;
mod quota;
mod requested_cpus;
mod rights;
mod scheduling;
mod settings;
mod smi;
mod steal;
mod thread_counters;
mod threads;
mod throttling;
mod uuid;
mod vms;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use vmnoise_events::HostFacts;

pub use cgroups::CgroupNames;
pub use clock_event::ClockEventDevice;
pub use kvm_debugfs::{GuestTsc, KvmDebugfs};
pub use kvm_pvm::KVM_PVM;
pub use lapic_timer::LapicTimerAdvance;
pub use posted::PostedCounts;
pub use requested_cpus::CpuError;
pub use rights::{Capabilities, Capability, Lockdown};
pub use scheduling::Scheduling;
pub use settings::{BOOT_ID, FileText, MachineFiles, MatchedFile, VmPlaceholder};
pub use smi::{NoSmiCount, PmuEvent};
pub use thread_counters::ThreadCounters;
pub use threads::{Thread, ThreadPlace};
pub use throttling::{FairServer, Throttling};
pub use vms::{VcpuThread, VmProcess, leads_to_vm};

const CPUS: &str = "sys/devices/system/cpu";

/// A machine whose facts are read from its /proc and /sys.
#[derive(Debug, Clone)]
pub struct Host {
    root: PathBuf,
    /// Function that returns the name for the hypervisor's signature by `cpuid`. It is called only
    /// if /proc/cpuinfo has the flag `hypervisor`.
    signature: fn() -> Option<&'static str>,
}

impl Host {
    /// Returns the machine on which this process runs.
    pub fn here() -> Host {
        Host {
            root: PathBuf::from("/"),
            signature: hypervisor::signature,
        }
    }

    /// Returns the machine whose `proc` and `sys` are under `root`. `cpuid` is not used.
    pub fn under(root: impl AsRef<Path>) -> Host {
        Host {
            root: root.as_ref().to_owned(),
            signature: || None,
        }
    }

    /// Returns the facts about the machine that every result contains.
    ///
    /// # Errors
    /// If /proc or /sys is missing. The message names the file.
    pub fn facts(&self) -> io::Result<HostFacts> {
        Ok(HostFacts {
            kernel: self.line("proc/sys/kernel/osrelease")?.into(),
            name: self.line("proc/sys/kernel/hostname").ok().map(Into::into),
            hypervisor: self.hypervisor().map(Into::into),
            cpu_model: self.cpu_model()?.into(),
            allowed_cpus: self.allowed_cpus()?,
            clocksource: self
                .line("sys/devices/system/clocksource/clocksource0/current_clocksource")?
                .into(),
            apic_ids: self.apic_ids(),
            kvm_module: self.kvm_module().map(Into::into),
            posted_interrupts: Some(self.posts_interrupts()),
            settings: None,
        })
    }

    /// Returns the CPUs that this process may use by its cpuset and its affinity, ascending.
    ///
    /// # Errors
    /// If /proc/self/status cannot be read. The message names the file.
    pub fn allowed_cpus(&self) -> io::Result<Vec<u32>> {
        let status = self.text("proc/self/status")?;
        let list = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        cpus_of(list.unwrap_or_default(), "proc/self/status")
    }

    /// Returns the CPUs that are online, ascending.
    ///
    /// # Errors
    /// If /sys cannot be read. The message names the file.
    pub fn online_cpus(&self) -> io::Result<Vec<u32>> {
        let file = format!("{CPUS}/online");
        cpus_of(&self.text(&file)?, &file)
    }

    /// Returns the CPUs that exist, ascending.
    ///
    /// # Errors
    /// If /sys cannot be read. The message names the file.
    pub fn present_cpus(&self) -> io::Result<Vec<u32>> {
        let file = format!("{CPUS}/present");
        cpus_of(&self.text(&file)?, &file)
    }

    /// Returns the CPUs that are kept free of other work, ascending. They are excluded from the
    /// scheduler's domains (`isolcpus`, isolated cpuset partitions) or from the tick (`nohz_full`).
    /// The list is empty if the kernel reports no such CPUs
    /// (Documentation/ABI/testing/sysfs-devices-system-cpu).
    pub fn isolated_cpus(&self) -> Vec<u32> {
        let listed = ["isolated", "nohz_full"].into_iter().filter_map(|list| {
            let text = self.text(&format!("{CPUS}/{list}")).ok()?;
            // If the kernel option is not set, the file is empty or contains `(null)`.
            cpu_list::parse(text.trim()).ok()
        });
        let mut cpus = listed.flatten().collect::<Vec<_>>();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }

    /// Returns whether the kernel is PREEMPT_RT: almost all of it can be preempted, including
    /// softirqs.
    pub fn is_preempt_rt(&self) -> bool {
        // The RT patch set adds this file. Without the file, the kernel's version line shows
        // PREEMPT_RT.
        let says = |file, word| self.text(file).is_ok_and(|text| text.contains(word));
        says("sys/kernel/realtime", "1") || says("proc/version", "PREEMPT_RT")
    }

    /// Returns the effective capabilities of this process; `None` if /proc does not report
    /// capabilities.
    pub fn capabilities(&self) -> Option<Capabilities> {
        Capabilities::from_status(&self.text("proc/self/status").ok()?)
    }

    /// Returns whether a seccomp filter checks the system calls of this process.
    pub fn has_call_filter(&self) -> bool {
        let status = self.text("proc/self/status").unwrap_or_default();
        // SECCOMP_MODE_FILTER of linux/seccomp.h.
        status.lines().any(|line| line == "Seccomp:\t2")
    }

    /// Returns the level of kernel lockdown. Returns `None` if the kernel does not support
    /// lockdown, or if securityfs is not mounted.
    pub fn lockdown(&self) -> Option<Lockdown> {
        Lockdown::parse(&self.text("sys/kernel/security/lockdown").ok()?)
    }

    fn cpu_model(&self) -> io::Result<String> {
        let cpuinfo = self.text("proc/cpuinfo")?;
        let model = cpuinfo
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| key.trim() == "model name");
        Ok(model
            .map_or("unknown", |(_, model)| model.trim())
            .to_owned())
    }

    /// Returns pairs of CPU number and APIC id, ascending; empty if the kernel reports no APIC ids.
    fn apic_ids(&self) -> Vec<(u32, u32)> {
        let cpuinfo = self.text("proc/cpuinfo").unwrap_or_default();
        let mut cpu = None;
        let mut ids = Vec::new();
        for (key, value) in cpuinfo.lines().filter_map(|line| line.split_once(':')) {
            let number = value.trim().parse().ok();
            match key.trim() {
                "processor" => cpu = number,
                "apicid" => ids.extend(cpu.zip(number)),
                _ => {}
            }
        }
        ids
    }

    fn text(&self, file: &str) -> io::Result<String> {
        let path = self.root.join(file);
        fs::read_to_string(&path).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot read {}: {error}", path.display()),
            )
        })
    }

    fn line(&self, file: &str) -> io::Result<String> {
        self.text(file).map(|text| text.trim().to_owned())
    }
}

fn cpus_of(list: &str, file: &str) -> io::Result<Vec<u32>> {
    cpu_list::parse(list).map_err(|error| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("/{file} has no CPU list: {error}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::fixtures::tree;
    use super::*;

    const MACHINE: [(&str, &str); 8] = [
        ("proc/sys/kernel/hostname", "rack-7\n"),
        ("proc/sys/kernel/osrelease", "6.1.0-28-amd64\n"),
        (
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: A CPU: fast\nflags\t\t: fpu tsc\n",
        ),
        ("proc/self/status", "Name:\tx\nCpus_allowed_list:\t1-2\n"),
        (
            "sys/devices/system/clocksource/clocksource0/current_clocksource",
            "tsc\n",
        ),
        ("sys/devices/system/cpu/present", "0-3\n"),
        ("sys/devices/system/cpu/online", "0-2\n"),
        ("sys/module/kvm_amd/version", ""),
    ];

    #[test]
    fn cpus_are_isolated_by_either_list_and_by_none() {
        let list = |isolated, nohz_full| {
            let (_root, host) = tree(&[
                ("sys/devices/system/cpu/isolated", isolated),
                ("sys/devices/system/cpu/nohz_full", nohz_full),
            ]);
            host.isolated_cpus()
        };
        assert_eq!(list("2-3\n", "3,5\n"), [2, 3, 5]);
        assert_eq!(list("\n", "(null)\n"), Vec::<u32>::new());
        assert_eq!(tree(&MACHINE).1.isolated_cpus(), Vec::<u32>::new());
    }

    #[test]
    fn facts_of_a_bare_machine() {
        let (_root, host) = tree(&MACHINE);
        let facts = host.facts().unwrap();
        assert_eq!(facts.name.as_deref(), Some("rack-7"));
        assert_eq!(facts.kernel, "6.1.0-28-amd64");
        assert_eq!(facts.hypervisor, None);
        assert_eq!(facts.cpu_model, "A CPU: fast");
        assert_eq!(facts.allowed_cpus, [1, 2]);
        assert_eq!(facts.clocksource, "tsc");
        assert_eq!(facts.kvm_module.as_deref(), Some("kvm_amd"));
        assert_eq!(host.lockdown(), None);
    }

    #[test]
    fn each_cpu_has_an_apic_id() {
        // CPU 1 is offline, and CPU 3 has no APIC id.
        let cpuinfo = "processor\t: 0\napicid\t\t: 0\ninitial apicid\t: 7\n\n\
                       processor\t: 2\napicid\t\t: 4\n\n\
                       processor\t: 3\nflags\t\t: apicid\n\n\
                       processor\t: 4\napicid\t\t: what\n";
        let (_root, host) = tree(&[("proc/cpuinfo", cpuinfo)]);
        assert_eq!(host.apic_ids(), [(0, 0), (2, 4)]);
        let (_root, host) = machine();
        assert_eq!(host.facts().unwrap().apic_ids, []);
    }

    #[test]
    fn a_machine_of_512_cpus_is_read_whole() {
        // Two sockets have consecutive CPU numbers. One CPU is offline, and the second socket is
        // isolated.
        let apic_id = |cpu: u32| cpu + 512 * (cpu / 256);
        let cpuinfo: String = (0..512)
            .map(|cpu| format!("processor\t: {cpu}\napicid\t\t: {}\n\n", apic_id(cpu)))
            .collect();
        let (_root, host) = tree(&[
            ("proc/cpuinfo", &cpuinfo),
            ("proc/self/status", "Cpus_allowed_list:\t0-510\n"),
            ("sys/devices/system/cpu/present", "0-511\n"),
            ("sys/devices/system/cpu/online", "0-510\n"),
            ("sys/devices/system/cpu/isolated", "256-511\n"),
        ]);
        assert!(host.present_cpus().unwrap().into_iter().eq(0..512));
        assert!(host.online_cpus().unwrap().into_iter().eq(0..511));
        assert!(host.allowed_cpus().unwrap().into_iter().eq(0..511));
        assert!(host.isolated_cpus().into_iter().eq(256..512));
        let apic_ids = (0..512).map(|cpu| (cpu, apic_id(cpu)));
        assert!(host.apic_ids().into_iter().eq(apic_ids));
    }

    #[test]
    fn a_real_time_kernel_says_so() {
        for (file, text, is_rt) in [
            ("sys/kernel/realtime", "1\n", true),
            (
                "proc/version",
                "Linux version 6.1.0 #1 SMP PREEMPT_RT Debian\n",
                true,
            ),
            (
                "proc/version",
                "Linux version 6.1.0 #1 SMP PREEMPT_DYNAMIC\n",
                false,
            ),
        ] {
            let (_root, host) = tree(&[(file, text)]);
            assert_eq!(host.is_preempt_rt(), is_rt, "{file}: {text}");
        }
    }

    #[test]
    fn an_error_names_the_file() {
        let (_root, host) = tree(&[("sys/devices/system/cpu/online", "what\n")]);
        let missing = host.facts().unwrap_err().to_string();
        assert!(missing.contains("proc/sys/kernel/osrelease"), "{missing}");
        let garbled = host.online_cpus().unwrap_err().to_string();
        assert!(
            garbled.contains("sys/devices/system/cpu/online"),
            "{garbled}"
        );
    }

    #[test]
    fn this_machine_has_facts() {
        let facts = Host::here().facts().unwrap();
        assert!(!facts.allowed_cpus.is_empty());
    }

    pub(super) fn machine() -> (tempfile::TempDir, Host) {
        tree(&MACHINE)
    }
}
