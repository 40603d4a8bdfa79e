//! The experiments of the papers behind vmnoise, as scenarios that anybody can run again: which
//! hypervisor, kernels, load and tuning, what is measured, and what the paper measured.
#![forbid(unsafe_code)]

pub mod library;
pub mod scenario;
