//! An open connection to the host, read without waiting.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Result};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use vsock::{VMADDR_CID_ANY, VMADDR_CID_HOST, VsockListener, VsockStream};

use super::transport::Transport;

/// Result of one read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Took {
    /// Number of bytes that were read.
    Bytes(usize),
    /// No bytes for now.
    Nothing,
    /// The host hung up, and may come back on the same connection.
    HangUp,
    /// The host hung up, and the connection must be opened again.
    Broken,
}

/// An open connection.
#[derive(Debug)]
pub(super) enum Link {
    /// A port or a FIFO. Its end of file means that the host has not opened the other end.
    Port {
        file: File,
        /// Whether bytes came since the last end of file.
        heard: bool,
    },
    Socket(UnixStream),
    Vsock {
        listener: VsockListener,
        stream: Option<VsockStream>,
    },
}

impl Link {
    pub(super) fn open(transport: &Transport) -> Result<Link> {
        match transport {
            Transport::Path(path) if is_socket(path) => Ok(Link::Socket(connected(path)?)),
            Transport::Path(path) => {
                let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits();
                let mut options = OpenOptions::new();
                let options = options.read(true).custom_flags(flags.cast_signed());
                Ok(Link::Port {
                    file: options.open(path)?,
                    heard: false,
                })
            }
            Transport::Vsock(port) => {
                let listener = VsockListener::bind_with_cid_port(VMADDR_CID_ANY, *port)?;
                listener.set_nonblocking(true)?;
                Ok(Link::Vsock {
                    listener,
                    stream: None,
                })
            }
        }
    }

    pub(super) fn take(&mut self, buffer: &mut [u8]) -> Took {
        match self {
            Link::Port { file, heard } => match looked(file.read(buffer)) {
                Took::HangUp => match std::mem::take(heard) {
                    true => Took::HangUp,
                    false => Took::Nothing,
                },
                took => {
                    *heard |= matches!(took, Took::Bytes(_));
                    took
                }
            },
            Link::Socket(stream) => match looked(stream.read(buffer)) {
                Took::HangUp => Took::Broken,
                took => took,
            },
            Link::Vsock { listener, stream } => {
                if let Some(newer) = from_the_host(listener) {
                    // The host keeps only one connection, so the older connection is dead.
                    let hung_up = stream.replace(newer).is_some();
                    if hung_up {
                        return Took::HangUp;
                    }
                }
                let Some(open) = stream else {
                    return Took::Nothing;
                };
                match looked(open.read(buffer)) {
                    Took::HangUp | Took::Broken => {
                        *stream = None;
                        Took::HangUp
                    }
                    took => took,
                }
            }
        }
    }
}

/// Accepts a connection only if its other end is the host. No program in this guest, and no other
/// guest, has the host's address.
fn from_the_host(listener: &VsockListener) -> Option<VsockStream> {
    let (stream, peer) = listener.accept().ok()?;
    let is_the_host = peer.cid() == VMADDR_CID_HOST;
    (is_the_host && stream.set_nonblocking(true).is_ok()).then_some(stream)
}

fn is_socket(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

/// Connects without waiting. Fails if no process accepts connections.
fn connected(path: &Path) -> Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

fn looked(read: Result<usize>) -> Took {
    match read {
        Ok(0) => Took::HangUp,
        Ok(count) => Took::Bytes(count),
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted => Took::Nothing,
            _ => Took::Broken,
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use std::io::Write;
    use std::os::unix::net::UnixListener;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_fifo_stays_open_whoever_comes_and_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let mut link = Link::open(&Transport::Path(path.clone())).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(link.take(&mut buffer), Took::Nothing);
        for _ in 0..2 {
            let mut writer = OpenOptions::new().write(true).open(&path).unwrap();
            assert_eq!(link.take(&mut buffer), Took::Nothing);
            writer.write_all(b"frame").unwrap();
            assert_eq!(link.take(&mut buffer), Took::Bytes(5));
            drop(writer);
            assert_eq!(link.take(&mut buffer), Took::HangUp);
            assert_eq!(link.take(&mut buffer), Took::Nothing);
        }
    }

    #[test]
    fn a_socket_is_over_when_the_host_leaves() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let mut link = Link::open(&Transport::Path(path.clone())).unwrap();
        let (mut host, _) = listener.accept().unwrap();
        let mut buffer = [0; 3];
        assert_eq!(link.take(&mut buffer), Took::Nothing);
        host.write_all(b"frame").unwrap();
        drop(host);
        assert_eq!(link.take(&mut buffer), Took::Bytes(3));
        assert_eq!(link.take(&mut buffer), Took::Bytes(2));
        assert_eq!(link.take(&mut buffer), Took::Broken);
        drop(listener);
        assert!(Link::open(&Transport::Path(path)).is_err());
    }
}
