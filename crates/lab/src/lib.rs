//! Repeats the papers' experiments on KVM and Xen. An experiment is described by a scenario, whose
//! combinations of settings are called cells. Cells run in emulation, on a host of KVM, or in a
//! Dom0 of Xen. Reports compare the measured figures with those of the papers.
#![forbid(unsafe_code)]

pub mod accel;
pub mod emulation;
pub mod figures;
pub mod folder;
pub mod host;
pub mod hypervisor;
pub mod library;
pub mod machine;
pub mod measuring;
pub mod needs;
pub mod place;
pub mod plan;
mod printed;
pub mod report;
pub mod run;
pub mod scenario;
pub mod verdict;
