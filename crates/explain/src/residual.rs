//! Names what a gap leaves over once every witness has spoken.

use vmnoise_events::Share;

use crate::visibility::{HostCoverage, Visibility};

/// What is known of the interval whose residual is named.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    /// An activity or an exit lay in it.
    pub(crate) something: bool,
    /// It is long enough for the clock of its host.
    pub(crate) is_sure: bool,
    /// No posted interrupt came to its CPU.
    pub(crate) is_unposted: bool,
    /// What its host says.
    pub(crate) host_coverage: HostCoverage,
}

/// The share of the residual of a gap. Hardware is named only where nobody else was there and every layer was watched.
/// Of an observed thread it is the way between two activities, that no event reports. Where nothing of this
/// kernel is seen, as without BPF, it may be anybody's, this kernel's first of all.
pub(crate) fn residual_share(visibility: &Visibility, held: Held) -> Share {
    let (is_blind, may_be_anothers) = match held.host_coverage {
        HostCoverage::None => (visibility.is_blind(held.is_unposted), false),
        HostCoverage::Host { is_whole } => (
            visibility.is_blind_itself(held.is_unposted),
            !is_whole || !held.is_sure || !visibility.host_sees_all(),
        ),
    };
    if visibility.is_observed() || visibility.sees_nothing() {
        Share::Unexplained
    } else if is_blind {
        Share::HvOrHw
    } else if held.something {
        Share::Unexplained
    } else if may_be_anothers {
        Share::HvOrHw
    } else {
        Share::Hw
    }
}
