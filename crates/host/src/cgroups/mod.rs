//! Control groups. Finds the pod, container or VM in a group, from the group's path and the data of
//! the container runtime.

mod names;
mod occupant;
mod runtimes;

pub use names::CgroupNames;
pub(super) use occupant::{Occupant, of as occupant_of, path_of};
pub(super) use runtimes::{Labels, Runtimes};
