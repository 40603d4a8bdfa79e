//! One file per command.

pub mod doctor;
pub mod explain;
pub mod microvm;
