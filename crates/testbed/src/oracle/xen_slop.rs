//! Compares a guest of Xen that has its kernel's default TIMER_SLOP with a guest that has less. In
//! both, a task wants to wake up sooner than the default allows.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::bed::{XenLab, XenReport};

/// Commands in the guest: `doctor`, and a measurement with a wake-up every 50 us.
const GUEST: [&str; 2] = [
    "vmnoise doctor --format json",
    "vmnoise timerlat -p 50 -d 200ms --format json",
];
/// Kernel parameter that sets TIMER_SLOP to 5 us.
const LESS: &str = "xen_timer_slop=5000";

/// Results of one guest.
#[derive(Debug, Clone, PartialEq)]
pub struct Woken {
    /// Words that were appended to the command line of the guest's kernel.
    pub command_line: &'static str,
    /// JSON of `vmnoise doctor` in the guest.
    pub doctor: Value,
    /// JSON of `vmnoise timerlat` in the guest.
    pub latency: Value,
    /// Whole output of the lab.
    pub report: XenReport,
}

/// Runs the commands in the guest of this lab.
///
/// # Errors
/// If the lab fails, or its output cannot be read.
pub fn woken(lab: &XenLab) -> Result<Woken> {
    reported(lab, "")
}

/// Runs a PV guest with the default TIMER_SLOP, and another with less. Returns both results in this
/// order.
///
/// # Errors
/// As for [`woken`].
pub fn slop() -> Result<[Woken; 2]> {
    let less = XenLab::pv().command_line(LESS);
    Ok([woken(&XenLab::pv())?, reported(&less, LESS)?])
}

fn reported(lab: &XenLab, command_line: &'static str) -> Result<Woken> {
    let report = lab.run(&[], &GUEST)?;
    // The guest has no KVM, so `doctor` ends with an error status.
    let doctor = serde_json::from_str(&report.guest[0].stdout).context("vmnoise doctor")?;
    Ok(Woken {
        command_line,
        doctor,
        latency: report.guest[1].json()?,
        report,
    })
}
