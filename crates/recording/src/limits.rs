//! What the facts of a recording may claim. A file may come from anybody, and each number in its header
//! stands for memory of whoever reads it.

use vmnoise_events::RunFacts;

/// CPUs of one machine, and their numbers: the most that Linux can be built for on x86
/// (`NR_CPUS_RANGE_END` of arch/x86/Kconfig).
pub(crate) const CPUS: u32 = 8_192;
/// Probes: there are some twenty.
const PROBE_STATUSES: usize = 1_024;
/// Reasons of exits that may be asked for: an architecture has some hundred.
const REASONS: usize = 4_096;
/// Bytes of the facts as JSON: with every list as long as may be, and every name, in letters of four
/// bytes, they are 15 MB.
const FACTS_BYTES: usize = 16 << 20;

/// Whether facts of this length may be looked at.
pub(crate) fn check_length(facts: &str) -> Result<(), String> {
    at_most("bytes of facts", facts.len(), FACTS_BYTES)
}

/// What these facts claim that no machine has.
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

/// Lists of CPUs ascend, so that none is in them twice.
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
