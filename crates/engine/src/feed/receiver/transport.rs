//! The transport by which this guest receives its host's feed.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use vmnoise_console::say;
use vmnoise_events::HostFacts;
use vmnoise_feed::{VSOCK_PORT, virtio_port};

/// Device that exists if the kernel has vsock, as a host or a guest.
const VSOCK: &str = "/dev/vsock";

/// Value of `--feed`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedFrom {
    /// The port or vsock that this machine has.
    Auto,
    /// No feed.
    Nowhere,
    /// This device, socket or FIFO.
    Path(PathBuf),
}

impl FromStr for FeedFrom {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<FeedFrom, Infallible> {
        Ok(match text {
            "auto" => FeedFrom::Auto,
            "none" => FeedFrom::Nowhere,
            path => FeedFrom::Path(path.into()),
        })
    }
}

/// Transport of a feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// A device, socket or FIFO.
    Path(PathBuf),
    /// Port of the guest's vsock, to which the host connects.
    Vsock(u32),
}

impl Transport {
    /// Returns the transport for a value of `--feed`; `None` if there is none. A machine without a
    /// hypervisor has no host.
    pub fn find(from: &FeedFrom, machine: &HostFacts) -> Option<Transport> {
        match from {
            FeedFrom::Nowhere => None,
            FeedFrom::Path(path) => Some(Transport::Path(path.clone())),
            FeedFrom::Auto => {
                machine.hypervisor.as_ref()?;
                let port = virtio_port();
                let vsock = || {
                    Path::new(VSOCK)
                        .exists()
                        .then_some(Transport::Vsock(VSOCK_PORT))
                };
                port.map(Transport::Path).or_else(vsock)
            }
        }
    }
}

impl std::fmt::Display for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Transport::Path(path) => write!(f, "{}", say::name_of(path)),
            Transport::Vsock(port) => write!(f, "vsock port {port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::*;

    #[test]
    fn bare_metal_has_no_host() {
        let machine = HostFacts::default();
        assert_eq!(Transport::find(&FeedFrom::Auto, &machine), None);
        assert_eq!(Transport::find(&FeedFrom::Nowhere, &machine), None);
        let path = FeedFrom::from_str("/x").unwrap();
        assert_eq!(
            Transport::find(&path, &machine),
            Some(Transport::Path("/x".into()))
        );
    }
}
