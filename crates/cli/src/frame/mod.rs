//! The live view of every `top`: one frame that fills the terminal, with one set of keys.
//!
//! A command says what it shows by a [`Source`]; the rest is the same for all. The frame is
//! read and drawn on by the thread that drains events, between two drains.

pub mod choice;
mod draw;
#[cfg(test)]
mod fixtures;
mod framed;
mod input;
mod interval;
mod keys;
mod list;
mod live;
mod look;
mod model;
mod noise;
mod screen;
mod snapshot;
mod unasked;
mod vcpus;
mod wakeups;

use vmnoise_events::RunFacts;
use vmnoise_explain::Interval;

use crate::output::view::Period;

pub use framed::Framed;
pub use keys::explained as keys;
pub use live::Live;
pub use noise::Noise;
pub use snapshot::{Snapshot, Words};
pub use vcpus::{Vcpus, WORDS as EXITS};
pub use wakeups::Wakeups;

/// What a command shows.
pub trait Source {
    /// Its words.
    fn words(&self, facts: &RunFacts) -> Words;
    /// A gap or a wake-up was explained.
    fn interval(&mut self, interval: &Interval);
    /// A period ended: what there is to see now.
    fn period(&mut self, period: &Period<'_>) -> Snapshot;
}
