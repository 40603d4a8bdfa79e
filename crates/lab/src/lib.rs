//! Repetition of the papers' experiments on KVM and Xen: scenarios as data, cells in emulation, on
//! a host of KVM or in a Dom0 of Xen, and reports that compare the measured figures with the
//! papers'.
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
