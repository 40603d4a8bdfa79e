//! Measured supply-bound function: the least time that a CPU left to its task in any window of a
//! given length.
//!
//! Shin and Lee introduced this function in "Periodic resource model for compositional real-time
//! guarantees", RTSS 2003. The measured function is a bound for the recorded time only.

mod bounded_delay;
mod measured;
mod stepped;
mod windows;

pub use bounded_delay::BoundedDelay;
pub use measured::{MeasuredSupply, NEVER_NS, WorstOfRuns};
pub use stepped::SupplySteps;
pub use windows::{Worst, longest_for, taken_in_turn, worst_window};

#[cfg(test)]
mod tests;
