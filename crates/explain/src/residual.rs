//! Names what a gap leaves over once every witness has spoken.

use vmnoise_events::Share;

use crate::visibility::{HostCoverage, Visibility};

/// The share of the residual of a gap; `held_something` says that an activity or
/// an exit lay in it, and `is_sure` that the gap is long enough for the clock of its host.
/// Hardware is named only where nobody else was there and every layer was watched. Of an observed thread it is the way between two activities,
/// that no event reports.
pub(crate) fn residual_share(
    visibility: &Visibility,
    held_something: bool,
    is_sure: bool,
    host_coverage: HostCoverage,
) -> Share {
    let (is_blind, may_be_anothers) = match host_coverage {
        HostCoverage::None => (visibility.is_blind(), false),
        HostCoverage::Host { is_whole } => (
            visibility.is_blind_itself(),
            !is_whole || !is_sure || !visibility.host_sees_all(),
        ),
    };
    if visibility.is_observed() {
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
