//! What a refusal ends with that a reboot cures.

/// Ends what is to be done before the run.
pub(super) const AGAIN: &str = "and run this again; `vmnoise-lab merge` joins the folders";
