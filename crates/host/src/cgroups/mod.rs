//! Control groups: who is in one, by its path and by the data of the container's runtime.

mod names;
mod occupant;
mod runtimes;

pub use names::CgroupNames;
pub(super) use occupant::{Occupant, of as occupant_of, path_of};
pub(super) use runtimes::{Labels, Runtimes};
