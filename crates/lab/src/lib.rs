//! The papers' experiments on KVM and Xen, to be run again: scenarios as data, cells in emulation, and the
//! papers' figures beside those that were measured.
#![forbid(unsafe_code)]

pub mod emulation;
pub mod figures;
pub mod folder;
pub mod library;
pub mod needs;
pub mod plan;
pub mod report;
pub mod run;
pub mod scenario;
pub mod verdict;
