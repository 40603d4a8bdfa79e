//! Names what a gap leaves over once every witness has spoken.

use vmnoise_events::Share;

use crate::sight::{Sight, Testimony};

/// The share of the residual of a gap; `held_something` says that an activity or
/// an exit lay in it, and `is_sure` that the gap is long enough for the clock of its host.
/// Hardware is named only where nobody else was there and every layer was watched. Of an observed thread it is the way between two activities,
/// of which no event tells.
pub(crate) fn residual_share(
    sight: &Sight,
    held_something: bool,
    is_sure: bool,
    testimony: Testimony,
) -> Share {
    let (is_blind, may_be_anothers) = match testimony {
        Testimony::None => (sight.is_blind(), false),
        Testimony::Host { is_whole } => (
            sight.is_blind_itself(),
            !is_whole || !is_sure || !sight.host_sees_all(),
        ),
    };
    if sight.is_observed() {
        Share::Unexplained
    } else if is_blind {
        Share::HvOrHw
    } else if held_something {
        Share::Unexplained
    } else if may_be_anothers {
        Share::HvOrHw
    } else {
        Share::Hw
    }
}
