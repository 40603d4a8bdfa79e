//! Counts the system management interrupts (SMIs) of each measured CPU. These counts are the only
//! evidence of time that the firmware takes. They do not show when an SMI came or how long it took.

use std::{fs::File, io, os::unix::fs::FileExt};

use vmnoise_events::ProbeStatus;

use crate::perf::{self, CountedEvents};
use vmnoise_host::{Host, NoSmiCount};

/// MSR_SMI_COUNT of Intel's CPUs (arch/x86/include/asm/msr-index.h). The lower 32 bits are the
/// count (Intel's manual, volume 4).
const MSR_SMI_COUNT: u64 = 0x34;

/// Running counters. Each counter begins at 0 when it is opened.
#[derive(Debug)]
pub struct SmiCounts {
    counters: Vec<(u32, Source)>,
    /// Reason why there are no counters, and the remedy; `None` if there are counters.
    missing: Option<(String, &'static str)>,
}

#[derive(Debug)]
enum Source {
    /// A counter of perf.
    Perf(perf::Counter),
    /// The file of the CPU's registers, and the value of MSR_SMI_COUNT when the file was opened.
    Register(File, u32),
}

impl SmiCounts {
    /// Opens a counter on each of these CPUs. If this fails on one CPU, opens no counter.
    pub fn open(host: &Host, cpus: &[u32]) -> SmiCounts {
        let by_perf = match host.smi_event() {
            Err(why @ NoSmiCount::Guest) => return SmiCounts::missing(why.to_string(), ""),
            Err(why) => Err((why.to_string(), "")),
            Ok(event) => on_each(cpus, |cpu| {
                perf::Counter::open(event, CountedEvents::Cpu(cpu)).map(Source::Perf)
            })
            .map_err(|why| {
                let why = format!("perf refuses its event msr/smi: {why}");
                (why, "run as root or with CAP_PERFMON")
            }),
        };
        let counters = by_perf.or_else(|(why, remedy)| {
            let has_register = |&cpu: &u32| host.smi_registers(cpu).is_some();
            if cpus.is_empty() || !cpus.iter().all(has_register) {
                return Err((why, remedy));
            }
            on_each(cpus, |cpu| open_register(host, cpu)).map_err(|and| {
                let why = format!("{why}; MSR_SMI_COUNT cannot be read either: {and}");
                (why, "run as root, with the kernel's module msr loaded")
            })
        });
        match counters {
            Ok(counters) => SmiCounts {
                counters,
                missing: None,
            },
            Err((why, remedy)) => SmiCounts::missing(why, remedy),
        }
    }

    fn missing(why: String, remedy: &'static str) -> SmiCounts {
        SmiCounts {
            counters: Vec::new(),
            missing: Some((why, remedy)),
        }
    }

    /// Returns the number of SMIs of this CPU since its counter was opened; `None` if this CPU has
    /// no counter.
    pub fn read(&self, cpu: u32) -> Option<u64> {
        let (_, counter) = self.counters.iter().find(|(opened, _)| *opened == cpu)?;
        match counter {
            Source::Perf(event) => event.read().ok().map(|count| count.events),
            Source::Register(registers, first) => {
                let now = read_register(registers).ok()?;
                Some(now.wrapping_sub(*first).into())
            }
        }
    }

    /// Returns a status that names the source of the counts, or the reason why there is none.
    pub fn probe_status(&self) -> ProbeStatus {
        let by_register = |(_, source): &(u32, Source)| matches!(source, Source::Register(..));
        let (probe_status, limit, remedy) = match &self.missing {
            None => (
                if self.counters.iter().any(by_register) {
                    "MSR 0x34 of /dev/cpu/N/msr"
                } else {
                    "perf event msr/smi"
                },
                "the number of SMIs, not their length".to_owned(),
                "",
            ),
            Some((why, remedy)) => ("not available", why.clone(), *remedy),
        };
        ProbeStatus {
            probe: "SMI count".into(),
            in_use: probe_status.into(),
            best: self.missing.is_none(),
            limit: limit.into(),
            remedy: remedy.into(),
        }
    }
}

fn on_each(
    cpus: &[u32],
    mut open: impl FnMut(u32) -> io::Result<Source>,
) -> io::Result<Vec<(u32, Source)>> {
    cpus.iter().map(|&cpu| Ok((cpu, open(cpu)?))).collect()
}

fn open_register(host: &Host, cpu: u32) -> io::Result<Source> {
    let path = host.smi_registers(cpu).ok_or(io::ErrorKind::Unsupported)?;
    let named = |error| io::Error::other(format!("{}: {error}", path.display()));
    let registers = File::open(&path).map_err(named)?;
    let first = read_register(&registers).map_err(named)?;
    Ok(Source::Register(registers, first))
}

/// Reads MSR_SMI_COUNT. The offset in the file is the number of the register, and a read returns 8
/// bytes (msr(4)).
fn read_register(registers: &File) -> io::Result<u32> {
    let mut value = [0; 8];
    registers.read_exact_at(&mut value, MSR_SMI_COUNT)?;
    // The count is the lower 32 bits.
    Ok(u64::from_ne_bytes(value) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_says_why_it_has_none() {
        if Host::here().hypervisor().is_none() {
            return;
        }
        let counts = SmiCounts::open(&Host::here(), &[0]);
        assert_eq!(counts.read(0), None);
        let probe_status = counts.probe_status();
        assert_eq!(probe_status.in_use, "not available");
        assert!(probe_status.limit.contains("guest"), "{probe_status:?}");
    }

    /// Returns the files of a machine with an Intel CPU but without perf's SMI event, and the
    /// register file of its CPU 0.
    fn without_perf() -> (tempfile::TempDir, File) {
        let root = tempfile::tempdir().unwrap();
        for folder in ["proc", "dev/cpu/0"] {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let cpuinfo = "vendor_id\t: GenuineIntel\nflags\t\t: fpu tsc\n";
        std::fs::write(root.path().join("proc/cpuinfo"), cpuinfo).unwrap();
        let registers = File::create(root.path().join("dev/cpu/0/msr")).unwrap();
        (root, registers)
    }

    #[test]
    fn where_perf_refuses_the_register_counts_from_its_opening_on() {
        let (root, registers) = without_perf();
        let set = |count: u64| {
            let bytes = count.to_ne_bytes();
            registers.write_all_at(&bytes, 0x34).unwrap();
        };
        let above = 7 << 32;
        set(above | 0xffff_fffe);
        let counts = SmiCounts::open(&Host::under(root.path()), &[0]);
        assert_eq!(counts.probe_status().in_use, "MSR 0x34 of /dev/cpu/N/msr");
        assert!(counts.probe_status().best);
        assert_eq!(counts.read(0), Some(0));
        set(above | 0xffff_ffff);
        assert_eq!(counts.read(0), Some(1));
        set(above | 3);
        assert_eq!(counts.read(0), Some(5), "across the wrap of 32 bits");
        assert_eq!(counts.read(1), None);
    }

    #[test]
    fn a_register_that_cannot_be_read_is_named() {
        let (root, _registers) = without_perf();
        let counts = SmiCounts::open(&Host::under(root.path()), &[0]);
        let probe_status = counts.probe_status();
        assert_eq!(
            (probe_status.in_use.as_str(), probe_status.best),
            ("not available", false)
        );
        assert!(
            probe_status.limit.contains("dev/cpu/0/msr"),
            "{probe_status:?}"
        );
        assert!(
            probe_status.remedy.contains("module msr"),
            "{probe_status:?}"
        );
        assert_eq!(counts.read(0), None);
    }
}
