//! A guest of Xen whose task is to wake up sooner than its timers let it: with the
//! TIMER_SLOP that its kernel has, and with less.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::bed::{XenLab, XenReport};

/// What the guest is asked, of itself and every 50 us.
const GUEST: [&str; 2] = [
    "vmnoise doctor --format json",
    "vmnoise timerlat -p 50 -d 200ms --format json",
];
/// What makes TIMER_SLOP 5 us.
const LESS: &str = "xen_timer_slop=5000";

/// What one guest reported.
#[derive(Debug, Clone, PartialEq)]
pub struct Woken {
    /// What its kernel was told besides.
    pub command_line: &'static str,
    /// `vmnoise doctor`.
    pub doctor: Value,
    /// `vmnoise timerlat`.
    pub latency: Value,
    /// All that the lab brought out.
    pub report: XenReport,
}

/// Asks a guest in this lab.
///
/// # Errors
/// If the lab fails, or what is said cannot be read.
pub fn woken(lab: &XenLab) -> Result<Woken> {
    reported(lab, "")
}

/// A PV guest, without more and with less slop.
///
/// # Errors
/// Those of [`woken`].
pub fn slop() -> Result<[Woken; 2]> {
    let less = XenLab::pv().command_line(LESS);
    Ok([woken(&XenLab::pv())?, reported(&less, LESS)?])
}

fn reported(lab: &XenLab, command_line: &'static str) -> Result<Woken> {
    let report = lab.run(&[], &GUEST)?;
    // There is no KVM in it, which doctor tells by its status.
    let doctor = serde_json::from_str(&report.guest[0].stdout).context("vmnoise doctor")?;
    Ok(Woken {
        command_line,
        doctor,
        latency: report.guest[1].json()?,
        report,
    })
}
