//! Chooses the share for the residual of a gap: the time that no probe explains.

use vmnoise_events::Share;

use crate::visibility::{HostCoverage, Visibility};

/// Facts about an interval that decide the share of its residual.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    /// Whether an activity or an exit lies in the interval.
    pub(crate) something: bool,
    /// Whether the interval is longer than the clock error of its host.
    pub(crate) is_sure: bool,
    /// Whether no posted interrupt came to the interval's CPU.
    pub(crate) is_unposted: bool,
    /// Coverage of the interval by the host's recording.
    pub(crate) host_coverage: HostCoverage,
}

/// Returns the share to which the residual of an interval belongs. The share is `hw` only if
/// nothing else happened in the interval and every layer was watched. The residual of an observed
/// thread is the kernel's work between two activities, which no event reports. Without BPF, the
/// residual may belong to any layer, most often to this kernel.
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
