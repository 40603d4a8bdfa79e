//! Common ending of refusals after which the user must reboot.

/// Words after the action that the user must take before the next run.
pub(super) const AGAIN: &str = "and run this again; `vmnoise-lab merge` joins the folders";
