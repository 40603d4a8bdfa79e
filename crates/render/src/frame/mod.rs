//! Live view of every `top` mode: a frame that fills the terminal. All frames use the same keys.
//!
//! Each command implements a [`FrameSource`]; everything else is common. The thread that drains
//! events also reads the keys and draws the frame, between two drains. Another thread writes the
//! output to the terminal.

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

use vmnoise_events::RunFacts;
use vmnoise_views::{FrameStart, News};

pub use keys::explained as keys;
pub use noise::NoiseView;
pub use vcpus::VcpusView;
pub use wakeups::WakeupsView;

use snapshot::{FrameWords, Snapshot};

/// Returns a function that starts a frame of this source, if `is_shown` and the terminal can show a
/// frame.
pub fn of<S: FrameSource + Default + 'static>(is_shown: bool) -> Option<FrameStart> {
    (is_shown && term_caps::can_show()).then_some(live::begin::<S>)
}

/// Source of the data that a command shows in its frame.
pub trait FrameSource {
    /// Returns the labels of the frame.
    fn words(&self, facts: &RunFacts) -> FrameWords;
    /// Takes news, and returns the data to show after a period.
    fn see(&mut self, news: News<'_>) -> Option<Snapshot>;
}
