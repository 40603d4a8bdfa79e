//! Where the feed of this machine's host comes in.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use vmnoise_events::HostFacts;
use vmnoise_feed::{PORT_NAME, VSOCK_PORT};

use crate::say;

/// Where udev shows ports by their names.
const NAMED_PORTS: &str = "/dev/virtio-ports";
/// Where the kernel reports each port's name, whoever made its device.
const PORTS: &str = "/sys/class/virtio-ports";
/// There where the kernel has vsock, host or guest.
const VSOCK: &str = "/dev/vsock";

/// Where the user wants it from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedFrom {
    /// Wherever this machine has it.
    Auto,
    /// Nowhere.
    Nowhere,
    /// From this device, socket or FIFO.
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

/// A way in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// A device, socket or FIFO.
    Path(PathBuf),
    /// The host connects to this port of the guest's vsock.
    Vsock(u32),
}

impl Transport {
    /// The way that the user means; `None` where there is none. A machine without a
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

/// The device of the port with the feed's name, if this machine has it.
pub fn virtio_port() -> Option<PathBuf> {
    port_among(Path::new(NAMED_PORTS), Path::new(PORTS))
}

/// By udev's link, or else by the kernel's own name for it.
fn port_among(named_ports: &Path, ports: &Path) -> Option<PathBuf> {
    let linked = named_ports.join(PORT_NAME);
    if linked.exists() {
        return Some(linked);
    }
    let is_the_feed = |port: &Path| {
        let name = std::fs::read_to_string(port.join("name"));
        name.is_ok_and(|name| name.trim_end() == PORT_NAME)
    };
    let entries = std::fs::read_dir(ports).ok()?.flatten();
    let port = entries
        .map(|entry| entry.path())
        .find(|port| is_the_feed(port))?;
    Some(Path::new("/dev").join(port.file_name()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

    use super::*;

    #[test]
    fn a_port_is_found_by_its_link_or_else_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let [named, ports] = ["named", "ports"].map(|name| folder.path().join(name));
        assert_eq!(port_among(&named, &ports), None);
        for (port, name) in [
            ("vport0p1", "org.qemu.guest_agent.0\n"),
            ("vport2p7", PORT_NAME),
        ] {
            std::fs::create_dir_all(ports.join(port)).unwrap();
            std::fs::write(ports.join(port).join("name"), name).unwrap();
        }
        std::fs::create_dir(ports.join("vport3p1")).unwrap();
        let found = port_among(&named, &ports);
        assert_eq!(found, Some("/dev/vport2p7".into()));
        std::fs::create_dir(&named).unwrap();
        std::fs::write(named.join(PORT_NAME), "").unwrap();
        assert_eq!(port_among(&named, &ports), Some(named.join(PORT_NAME)));
    }

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
