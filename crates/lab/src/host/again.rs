//! Common end of refusals that a reboot removes.

/// Words after the step that is needed before the next run.
pub(super) const AGAIN: &str = "and run this again; `vmnoise-lab merge` joins the folders";
