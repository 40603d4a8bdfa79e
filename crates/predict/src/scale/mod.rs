//! Slowdown of a bulk-synchronous parallel program: in each step, all ranks wait for the slowest
//! rank.
//!
//! Each step needs the same CPU time of every rank. All ranks begin a step together, and the step
//! ends when the slowest rank ends. The model takes all CPUs of a host at the same moment of the
//! recording. So an event that hits several CPUs of a host hits several ranks together. The hosts
//! are independent: each is at a random moment of its recording, and all moments are equally
//! likely.
//!
//! Sources: Petrini, Kerbyson and Pakin, "The case of the missing supercomputer performance",
//! SC'03; Hoefler, Schneider and Lumsdaine, "Characterizing the influence of system noise on
//! large-scale applications by simulation", SC'10.

mod allreduce;
mod band;
mod bounds;
mod delays;
mod grid;
mod measured;
mod placement;
mod predict;
mod rank;
mod slowest;
mod suspects;
mod sweep;
mod tournament;

pub use predict::{
    AtScale, Basis, BspProgram, Collective, HostCpus, Prediction, WhyNot, has_a_step, predict,
};
pub use suspects::Suspect;

#[cfg(test)]
mod tests;
