//! What becomes of a bulk-synchronous program, whose ranks wait for the slowest of them in each step.
//!
//! Each step every rank needs so much of its CPU; all begin together, and the step ends with the slowest.
//! The CPUs of one host keep what they have in common: they are looked at at the same moment of the
//! recording. Hosts know nothing of one another: each is at a moment of its recording that is as likely as
//! any other.
//!
//! Sources: Petrini, Kerbyson and Pakin, "The case of the missing supercomputer performance", SC'03;
//! Hoefler, Schneider and Lumsdaine, "Characterizing the influence of system noise on large-scale
//! applications by simulation", SC'10.

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
    AtScale, Basis, Collective, Host, Prediction, Program, WhyNot, has_a_step, predict,
};
pub use suspects::Suspect;

#[cfg(test)]
mod tests;
