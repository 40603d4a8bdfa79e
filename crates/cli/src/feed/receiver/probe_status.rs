//! Whether there is a feed and what it tells, in the words of `vmnoise doctor` and of each
//! result's last lines.

use vmnoise_events::ProbeStatus;

use super::{HostFeed, Transport};

const PROBE: &str = "feed of the host";
const UNKNOWN: &str = "LW_EX, HW_EX, VIRT and HW_NOISE are unknown";
const SERVE: &str = "on the host: vmnoise exits --feed (docs/feed.md)";

/// Nobody could say: this guest has no way in, or it is taken (`why`).
pub fn of_none(why: &str) -> ProbeStatus {
    let limit = match why {
        "" => UNKNOWN.to_owned(),
        why => format!("{why}: {UNKNOWN}"),
    };
    let remedy = "give this guest a virtio-serial port for it (docs/feed.md)";
    ProbeStatus::limited(PROBE, "none", &limit, remedy)
}

/// A way in that nobody has looked into.
pub fn of_transport(transport: Option<&Transport>) -> ProbeStatus {
    match transport {
        Some(transport) => ProbeStatus::best(PROBE, &transport.to_string()),
        None => of_none(""),
    }
}

/// A feed that is open; it is read before this is asked.
pub fn of_open(feed: &HostFeed) -> ProbeStatus {
    match feed.held() {
        Some(frame) => ProbeStatus::best(
            PROBE,
            &format!("{}, {}", feed.transport(), frame.detail.name()),
        ),
        None => {
            let limit =
                format!("the host was silent when the run began: until it speaks {UNKNOWN}");
            ProbeStatus::limited(PROBE, &feed.transport().to_string(), &limit, SERVE)
        }
    }
}
