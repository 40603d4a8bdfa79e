//! Limits for the facts of a recording. A file may have any author, and each number in its header
//! costs memory in the reader.

use vmnoise_events::RunFacts;

/// Maximum number of CPUs of one machine, and limit of CPU numbers: the maximum of Linux on x86
/// (`NR_CPUS_RANGE_END` of arch/x86/Kconfig).
pub(crate) const CPUS: u32 = 8_192;
/// Maximum number of probes; vmnoise has some twenty.
const PROBE_STATUSES: usize = 1_024;
/// Maximum number of exit reasons that may be requested; an architecture has some hundred.
const REASONS: usize = 4_096;
/// Maximum length of the facts as JSON, in bytes. With the longest lists and names, in characters
/// of four bytes, the facts take 15 MB.
const FACTS_BYTES: usize = 16 << 20;

/// Checks that facts of this length may be parsed.
pub(crate) fn check_length(facts: &str) -> Result<(), String> {
    at_most("bytes of facts", facts.len(), FACTS_BYTES)
}

/// Checks that the facts are possible for a real machine.
pub(crate) fn check(facts: &RunFacts) -> Result<(), String> {
    let (options, host) = (&facts.options, &facts.host);
    cpus("measured CPUs", options.cpus.iter().copied())?;
    cpus("allowed CPUs", host.allowed_cpus.iter().copied())?;
    cpus("CPUs with an APIC id", host.apic_ids.iter().map(|id| id.0))?;
    at_most("observed threads", options.observed.len(), CPUS as usize)?;
    at_most("probes", facts.probe_statuses.len(), PROBE_STATUSES)?;
    if let Some(filter) = &options.exits {
        at_most("reasons", filter.reasons.len(), REASONS)?;
        let vcpus = filter.vcpus.as_ref().map_or(0, Vec::len);
        at_most("vCPUs asked for", vcpus, CPUS as usize)?;
    }
    Ok(())
}

/// Checks a list of CPU numbers. The list must ascend, so that no CPU occurs twice.
fn cpus(what: &str, list: impl Iterator<Item = u32>) -> Result<(), String> {
    let mut least = 0;
    for cpu in list {
        if cpu >= CPUS {
            return Err(format!("{what}: no machine has CPU {cpu}"));
        }
        if cpu < least {
            return Err(format!("{what}: CPU {cpu} is out of order, or there twice"));
        }
        least = cpu + 1;
    }
    Ok(())
}

fn at_most(what: &str, found: usize, most: usize) -> Result<(), String> {
    match found <= most {
        true => Ok(()),
        false => Err(format!("{found} {what}: {most} is the most")),
    }
}
