//! Checks that this machine measures the sums for which a dump can be requested: the steal time of
//! each CPU, and the CPU pressure of the machine.

use std::fmt;

use vmnoise_host::Host;
use vmnoise_serve_arguments::{DumpLimit, Sign};

/// Error: this machine does not support an option. The text names the remedy.
#[derive(Debug)]
pub(crate) struct Lacking(pub(crate) &'static str);

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Lacking {}

/// Checks that this machine has the sums for these limits. On bare metal, /proc/stat has the steal
/// column too, but its values stay 0.
///
/// # Errors
/// If a sum is missing. The error names the remedy.
pub(crate) fn check(limits: &[DumpLimit]) -> Result<(), Lacking> {
    let host = Host::here();
    let wants = |sign| limits.iter().any(|limit| limit.sign == sign);
    if wants(Sign::Pressure) && host.cpu_pressure_ns().is_none() {
        return Err(Lacking(
            "--dump-on pressure: this kernel has no /proc/pressure/cpu; use a kernel with CONFIG_PSI, and if \
             PSI is off by default, psi=1 on its command line",
        ));
    }
    if wants(Sign::Steal) && (!host.is_guest() || host.cpu_steal_ns().is_empty()) {
        return Err(Lacking(
            "--dump-on steal: no hypervisor is below this machine, so there is no steal clock; leave this out",
        ));
    }
    Ok(())
}
