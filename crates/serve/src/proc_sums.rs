//! Sums that the kernel measures: the steal time of each CPU, and the CPU pressure of the machine
//! (proc(5)).

use std::collections::BTreeMap;
use std::fmt;
use std::fs;

use rustix::param::clock_ticks_per_second;
use vmnoise_serve_arguments::{DumpLimit, Sign};

const STAT: &str = "/proc/stat";
const PRESSURE: &str = "/proc/pressure/cpu";

/// Error: this machine does not support an option. The text names the remedy.
#[derive(Debug)]
pub(crate) struct Lacking(pub(crate) &'static str);

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Lacking {}

/// Checks that this machine has the sums for these limits.
///
/// # Errors
/// If a sum is missing. The error names the remedy.
pub(crate) fn check(limits: &[DumpLimit]) -> Result<(), Lacking> {
    let wants = |sign| limits.iter().any(|limit| limit.sign == sign);
    if wants(Sign::Pressure) && pressure_ns().is_none() {
        return Err(Lacking(
            "--dump-on pressure: this kernel has no /proc/pressure/cpu; use a kernel with CONFIG_PSI, and if \
             PSI is off by default, psi=1 on its command line",
        ));
    }
    if wants(Sign::Steal) && (!is_guest() || steal_ns().is_empty()) {
        return Err(Lacking(
            "--dump-on steal: no hypervisor is below this machine, so there is no steal clock; leave this out",
        ));
    }
    Ok(())
}

/// Returns whether this machine is a guest. On bare metal, /proc/stat has the steal column too, but
/// its values stay 0.
fn is_guest() -> bool {
    let told = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut flags = told.lines().filter(|line| line.starts_with("flags"));
    flags.any(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// Returns the steal time of each CPU since boot, in ns. Empty if /proc/stat cannot be read.
pub(crate) fn steal_ns() -> BTreeMap<u32, u64> {
    let told = fs::read_to_string(STAT).unwrap_or_default();
    steal_of(&told, clock_ticks_per_second())
}

fn steal_of(stat: &str, ticks_per_second: u64) -> BTreeMap<u32, u64> {
    let of_cpu = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split(' ');
        // The first line has the sum of all CPUs. It has no CPU number, so it is skipped here.
        let cpu = words.next()?.parse().ok()?;
        let ticks: u64 = words.nth(7)?.parse().ok()?;
        Some((cpu, ticks * 1_000_000_000 / ticks_per_second))
    };
    stat.lines().filter_map(of_cpu).collect()
}

/// Returns the time since boot in which at least one task waited for a CPU, in ns. `None` if this
/// kernel does not measure it.
pub(crate) fn pressure_ns() -> Option<u64> {
    pressure_of(&fs::read_to_string(PRESSURE).ok()?)
}

fn pressure_of(told: &str) -> Option<u64> {
    let some = told.lines().find(|line| line.starts_with("some "))?;
    let total = some.split(' ').find_map(|word| word.strip_prefix("total="));
    Some(total?.parse::<u64>().ok()? * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_figure_of_each_cpu() {
        let stat = "cpu  9 8 7 6 5 4 3 999 1 0\n\
                    cpu0 1 2 3 4 5 6 7 80 9 0\n\
                    cpu11 1 2 3 4 5 6 7 3 9 0\n\
                    intr 5 6\n";
        let expected = [(0, 800_000_000), (11, 30_000_000)].into();
        assert_eq!(steal_of(stat, 100), expected);
        assert_eq!(steal_of("cpu0 1 2 3\n", 100), BTreeMap::new());
    }

    #[test]
    fn pressure_is_the_sum_of_some_and_not_of_full() {
        let told = "some avg10=78.61 avg60=47.76 avg300=44.07 total=4125\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(pressure_of(told), Some(4_125_000));
        assert_eq!(pressure_of(""), None);
    }
}
