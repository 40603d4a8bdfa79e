//! The port over which a guest asks its host for a dump (docs/serve.md). Only root may open the
//! port, so the port is opened before rights are dropped. Reading and writing never block.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use vmnoise_events::ShownLine;

use crate::layout::PORT_NAME;

/// Folder in which udev links ports by their names.
const NAMED_PORTS: &str = "/dev/virtio-ports";
/// Folder in which the kernel reports each port's name, independently of udev.
const PORTS: &str = "/sys/class/virtio-ports";
/// Request that `vmnoise serve --dumps-for` on the host expects.
const ASK: &[u8] = b"dump\n";
/// Flags O_NONBLOCK and O_NOCTTY (open(2)).
const WITHOUT_WAITING: i32 = 0o4000 | 0o400;
/// Maximum number of bytes of the host's answer that one call reads. The answer usually is the name
/// of a file.
const ANSWER_BYTES: usize = 256;

/// Reason why a host cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// This machine has no port over which its host could be asked.
    #[error(
        "this machine has no port {PORT_NAME} over which its host could be asked for a dump: docs/feed.md says how \
         a VMM gives it one, or name another"
    )]
    NoPort,
    /// The port cannot be opened.
    #[error(
        "opening {}, over which the host is asked for a dump: a port has one user, and a feed may be it (--feed none)",
        ShownLine::from(&**path)
    )]
    Open {
        /// Path of the port.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The port accepts no request.
    #[error(
        "asking the host for a dump over {}: is `vmnoise serve --dumps-for` running there?",
        ShownLine::from(&**path)
    )]
    Ask {
        /// Path of the port.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// The host, which a guest may ask for dumps.
#[derive(Debug)]
pub struct AskedHost {
    path: PathBuf,
    port: File,
}

impl AskedHost {
    /// Opens the port at `path`. Without `path`, opens the port with the feed's name.
    ///
    /// # Errors If there is no such port, or if another program has the port open.
    pub fn open(path: Option<&Path>) -> Result<AskedHost, AskError> {
        let path = path.map(Path::to_owned).or_else(virtio_port);
        let path = path.ok_or(AskError::NoPort)?;
        let mut options = OpenOptions::new();
        let options = options.read(true).append(true);
        match options.custom_flags(WITHOUT_WAITING).open(&path) {
            Ok(port) => Ok(AskedHost { path, port }),
            Err(source) => Err(AskError::Open { path, source }),
        }
    }

    /// Asks the host once for a dump.
    ///
    /// # Errors If no program on the host has the other end open, or the port accepts nothing.
    pub fn ask(&self) -> Result<(), AskError> {
        let mut port = &self.port;
        port.write_all(ASK).map_err(|source| AskError::Ask {
            path: self.path.clone(),
            source,
        })
    }

    /// Returns the host's answer since the last call: the name of the host's file, or `no:` and the
    /// reason. Returns `None` without an answer.
    pub fn answer(&self) -> Option<ShownLine> {
        let mut answer = [0; ANSWER_BYTES];
        let mut port = &self.port;
        let read = port.read(&mut answer).unwrap_or(0);
        let answer = String::from_utf8_lossy(&answer[..read]);
        let answer = answer.trim();
        (!answer.is_empty()).then(|| answer.into())
    }
}

/// Returns the device of the port with the feed's name, if this machine has it.
pub fn virtio_port() -> Option<PathBuf> {
    port_among(Path::new(NAMED_PORTS), Path::new(PORTS))
}

/// Finds the port by udev's link, or else by the kernel's name for it.
fn port_among(named_ports: &Path, ports: &Path) -> Option<PathBuf> {
    let linked = named_ports.join(PORT_NAME);
    if linked.exists() {
        return Some(linked);
    }
    let is_the_feed = |port: &Path| {
        let name = fs::read_to_string(port.join("name"));
        name.is_ok_and(|name| name.trim_end() == PORT_NAME)
    };
    let entries = fs::read_dir(ports).ok()?.flatten();
    let port = entries
        .map(|entry| entry.path())
        .find(|port| is_the_feed(port))?;
    Some(Path::new("/dev").join(port.file_name()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use std::os::unix::net::UnixStream;

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
            fs::create_dir_all(ports.join(port)).unwrap();
            fs::write(ports.join(port).join("name"), name).unwrap();
        }
        fs::create_dir(ports.join("vport3p1")).unwrap();
        let found = port_among(&named, &ports);
        assert_eq!(found, Some("/dev/vport2p7".into()));
        fs::create_dir(&named).unwrap();
        fs::write(named.join(PORT_NAME), "").unwrap();
        assert_eq!(port_among(&named, &ports), Some(named.join(PORT_NAME)));
    }

    #[test]
    fn a_host_is_asked_and_heard_and_neither_is_waited_for() {
        let (guest, mut host) = UnixStream::pair().unwrap();
        guest.set_nonblocking(true).unwrap();
        let asked = AskedHost {
            path: "/a/port".into(),
            port: File::from(std::os::fd::OwnedFd::from(guest)),
        };
        assert_eq!(asked.answer(), None);
        asked.ask().unwrap();
        let mut heard = [0; 5];
        host.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, ASK);
        host.write_all(b"late-1.vmn\n").unwrap();
        assert_eq!(asked.answer(), Some("late-1.vmn".into()));
        drop(host);
        assert_eq!(asked.answer(), None);
        let error = asked.ask().unwrap_err();
        assert!(error.to_string().contains("/a/port"), "{error}");
    }
}
