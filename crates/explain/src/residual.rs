//! Names what a gap leaves over once every witness has spoken.

use vmnoise_events::Share;

use crate::sight::Sight;

/// The share of the residual of a gap; `held_something` says that an activity or
/// an exit lay in it. Hardware is named only where nobody else was there and
/// every layer was watched. Of an observed thread it is the way between two activities,
/// of which no event tells.
pub(crate) fn residual_share(sight: &Sight, held_something: bool) -> Share {
    if sight.is_observed() {
        Share::Unexplained
    } else if sight.is_blind() {
        Share::HvOrHw
    } else if held_something {
        Share::Unexplained
    } else {
        Share::Hw
    }
}
