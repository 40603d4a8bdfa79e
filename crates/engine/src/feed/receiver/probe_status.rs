//! Probe status of the feed, for `vmnoise doctor` and the last lines of each result.

use vmnoise_events::ProbeStatus;

use super::{HostFeed, Transport};

const PROBE: &str = "feed of the host";
const UNKNOWN: &str = "LW_EX, HW_EX, VIRT and HW_NOISE are unknown";
const SERVE: &str = "on the host: vmnoise exits --feed (docs/feed.md)";

/// Returns the status of a guest without a feed. `why` is empty if the guest has no transport.
/// Otherwise `why` says why the transport cannot be opened.
pub fn of_none(why: &str) -> ProbeStatus {
    let limit = match why {
        "" => UNKNOWN.to_owned(),
        why => format!("{why}: {UNKNOWN}"),
    };
    let remedy = "give this guest a virtio-serial port for the feed (docs/feed.md)";
    ProbeStatus::limited(PROBE, "none", &limit, remedy)
}

/// Returns the status of a transport that was not opened.
pub fn of_transport(transport: Option<&Transport>) -> ProbeStatus {
    match transport {
        Some(transport) => ProbeStatus::best(PROBE, &transport.to_string()),
        None => of_none(""),
    }
}

/// Returns the status of an open feed. Read from the feed before this call.
pub fn of_open(feed: &HostFeed) -> ProbeStatus {
    match feed.held() {
        Some(frame) => ProbeStatus::best(
            PROBE,
            &format!("{}, {}", feed.transport(), frame.detail.name()),
        ),
        None => {
            let limit =
                format!("the host had sent nothing when the run began: until it does, {UNKNOWN}");
            ProbeStatus::limited(PROBE, &feed.transport().to_string(), &limit, SERVE)
        }
    }
}
