//! The papers' experiments on KVM and Xen, to be run again: scenarios as data, cells in emulation or on a host of
//! KVM, and the papers' figures beside those that were measured.
#![forbid(unsafe_code)]

pub mod accel;
pub mod emulation;
pub mod figures;
pub mod folder;
pub mod host;
pub mod library;
pub mod measuring;
pub mod needs;
pub mod place;
pub mod plan;
pub mod report;
pub mod run;
pub mod scenario;
pub mod verdict;
