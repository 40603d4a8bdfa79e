//! The gate on this machine.
