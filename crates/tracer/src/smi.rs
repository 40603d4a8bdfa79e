//! Counts system management interrupts of each measured CPU: the one witness of time
//! that the firmware takes. It says how many, never when or how long.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::{FromRawFd, OwnedFd},
};

use vmnoise_events::Rung;

use crate::host::{Host, PmuEvent};

/// Running counters, each from its opening on.
#[derive(Debug)]
pub struct SmiCounts {
    counters: Vec<(u32, File)>,
    /// Why there are none, and what would help.
    missing: Option<(String, &'static str)>,
}

impl SmiCounts {
    /// Opens a counter on each of these CPUs, or on none.
    pub fn open(host: &Host, cpus: &[u32]) -> SmiCounts {
        let event = match host.smi_event() {
            Ok(event) => event,
            Err(why) => return SmiCounts::missing(why.to_string(), ""),
        };
        let open = |&cpu| Ok((cpu, open(event, cpu)?));
        match cpus.iter().map(open).collect::<io::Result<_>>() {
            Ok(counters) => SmiCounts {
                counters,
                missing: None,
            },
            Err(error) => SmiCounts::missing(
                format!("perf refuses its event msr/smi: {error}"),
                "run as root or with CAP_PERFMON",
            ),
        }
    }

    fn missing(why: String, remedy: &'static str) -> SmiCounts {
        SmiCounts {
            counters: Vec::new(),
            missing: Some((why, remedy)),
        }
    }

    /// How many this CPU has had since the opening; `None` where they are not counted.
    pub fn read(&self, cpu: u32) -> Option<u64> {
        let (_, counter) = self.counters.iter().find(|(opened, _)| *opened == cpu)?;
        read(counter).ok()
    }

    /// Where the count comes from, or why there is none.
    pub fn rung(&self) -> Rung {
        let (rung, limit, remedy) = match &self.missing {
            None => (
                "perf event msr/smi",
                "how many SMIs there were, not how long".to_owned(),
                "",
            ),
            Some((why, remedy)) => ("not available", why.clone(), *remedy),
        };
        Rung {
            probe: "SMI count".to_owned(),
            rung: rung.to_owned(),
            best: self.missing.is_none(),
            limit,
            remedy: remedy.to_owned(),
        }
    }
}

/// Counts an event on one CPU, whatever runs there (perf_event_open(2)).
fn open(event: PmuEvent, cpu: u32) -> io::Result<File> {
    // struct perf_event_attr of its first version (PERF_ATTR_SIZE_VER0): `type` and
    // `size`, `config`, and all else zero: no sample, every level of privilege.
    const SIZE: u64 = 64;
    const CLOSE_ON_EXEC: u64 = 1 << 3;
    let mut attributes = [0_u64; 8];
    attributes[0] = u64::from(event.pmu) | SIZE << 32;
    attributes[1] = event.config;
    let every_process = -1;
    let no_group = -1;
    // SAFETY: `attributes` lives through the call and is as long as it says; the rest
    // are plain numbers. The result is an error or a descriptor that nobody else owns.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes.as_ptr(),
            every_process,
            cpu,
            no_group,
            CLOSE_ON_EXEC,
        )
    };
    let fd = i32::try_from(fd).unwrap_or(-1);
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) }.into())
}

fn read(mut counter: &File) -> io::Result<u64> {
    let mut count = [0; 8];
    counter.read_exact(&mut count)?;
    Ok(u64::from_ne_bytes(count))
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
        let rung = counts.rung();
        assert_eq!(rung.rung, "not available");
        assert!(rung.limit.contains("guest"), "{rung:?}");
    }

    mod root {
        use super::super::*;

        /// The neighbour of `smi` in the same PMU, which every x86 CPU counts.
        #[test]
        fn a_counter_of_the_msr_pmu_counts_on_its_cpu() {
            let event = Host::here().msr_event("tsc").unwrap();
            let counter = open(event, 0).unwrap();
            let first = read(&counter).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(10));
            assert!(read(&counter).unwrap() > first + 1_000_000);
            assert!(open(event, 1 << 20).is_err());
        }
    }
}
