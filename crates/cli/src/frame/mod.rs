//! The live view of every `top`: one frame that fills the terminal, with one set of keys.
//!
//! A command says what it shows by a [`Source`]; the rest is the same for all. The frame is
//! read and drawn by the thread that drains events, between two drains; a thread of its own writes
//! what was drawn on the terminal.

mod draw;
#[cfg(test)]
mod fixtures;
mod input;
mod interval;
mod keys;
mod list;
mod live;
mod model;
mod noise;
mod screen;
mod snapshot;
mod term_caps;
mod term_style;
mod vcpus;
mod wakeups;
mod write_only;

use std::time::Duration;

use vmnoise_events::RunFacts;
use vmnoise_explain::{ExitExplainer, Interval};

use crate::run::{Frame, Period};

pub use keys::explained as keys;
pub use noise::Noise;
pub use vcpus::Vcpus;
pub use wakeups::Wakeups;

use snapshot::{Snapshot, Words};

/// A frame of this source for a run that is to be shown, if the terminal can.
pub fn of<S: Source + Default + 'static>(is_shown: bool) -> Option<Frame> {
    (is_shown && term_caps::can_show()).then_some(live::begin::<S>)
}

/// What a command shows.
pub trait Source {
    /// Its words.
    fn words(&self, facts: &RunFacts) -> Words;
    /// A gap or a wake-up was explained.
    fn interval(&mut self, _interval: &Interval) {}
    /// A period of gaps or wake-ups ended: what there is to see now.
    fn period(&mut self, _period: &Period<'_>) -> Snapshot {
        Snapshot::default()
    }
    /// A period of exits ended: what there is to see now.
    fn exits_so_far(&mut self, _measured: Duration, _exits: &ExitExplainer) -> Snapshot {
        Snapshot::default()
    }
}
