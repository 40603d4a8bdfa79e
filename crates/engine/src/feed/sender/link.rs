//! Connection to one VMM. A broken connection is opened again. No function waits for the VMM.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use vmnoise_feed::{FeedAddress, Outgoing};

/// Size of the socket's send buffer. In a larger buffer, frames would get old while the guest does
/// not read.
const SEND_BUFFER_BYTES: usize = 16 << 10;
/// Largest number of bytes from a guest that are read and discarded at a time.
const DISCARD_BYTES: usize = 4 << 10;
/// Time within which a VMM must answer whether it connected its guest.
const ANSWER_TIME: Duration = Duration::from_secs(2);
/// Largest length of the answer: `OK` and a port.
const MAX_ANSWER_BYTES: usize = 32;

/// Connection of one feed, and the frames that wait for it.
#[derive(Debug)]
pub struct Link {
    address: FeedAddress,
    state: State,
    /// Frames that wait or are partly sent.
    pub outgoing: Outgoing,
    /// Number of connections made.
    pub connections: u64,
    /// Number of bytes that the guest sent and this link discarded.
    pub discarded_bytes: u64,
}

#[derive(Debug)]
enum State {
    Away,
    /// The connection exists, and nothing was sent yet.
    Accepted {
        socket: UnixStream,
        peer_pid: u32,
    },
    /// The VMM was asked to connect its guest.
    Asked {
        socket: UnixStream,
        peer_pid: u32,
        answer: Vec<u8>,
        since: Instant,
    },
    Open {
        socket: UnixStream,
        peer_pid: u32,
    },
}

/// Reason why a connection ended.
#[derive(Debug)]
pub enum Parting {
    /// The connection broke, or the other end closed it.
    Closed,
    /// The VMM did not answer `OK`: no program in the guest listens on the port.
    NotConnected,
}

impl Link {
    /// Returns a link that is not connected yet.
    pub fn new(address: FeedAddress) -> Link {
        Link {
            address,
            state: State::Away,
            outgoing: Outgoing::default(),
            connections: 0,
            discarded_bytes: 0,
        }
    }

    /// Returns the address of the link.
    pub fn address(&self) -> &FeedAddress {
        &self.address
    }

    /// Connects if there is no connection, and sends nothing. Call this once a second, because no
    /// other code limits the attempts if the VMM closes each connection.
    ///
    /// Returns the process at the other end of a new connection.
    ///
    /// # Errors
    /// If no process listens on the socket, or this process may not use the socket.
    pub fn connect(&mut self) -> io::Result<Option<u32>> {
        if !matches!(self.state, State::Away) {
            return Ok(None);
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::net::sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES)?;
        // The socket is non-blocking, so the call fails at once if the listener's queue is full.
        rustix::net::connect(&socket, &SocketAddrUnix::new(&self.address.path)?)?;
        // The id is 0 if this process cannot see the PID namespace of the other end. No VMM has
        // this id.
        let peer_pid = getsockopt(&socket, PeerCredentials)?.pid().unsigned_abs();
        self.connections += 1;
        let socket = UnixStream::from(socket);
        self.state = State::Accepted { socket, peer_pid };
        Ok(Some(peer_pid))
    }

    /// Returns the process at the other end.
    pub fn peer_pid(&self) -> Option<u32> {
        match self.state {
            State::Away => None,
            State::Accepted { peer_pid, .. }
            | State::Asked { peer_pid, .. }
            | State::Open { peer_pid, .. } => Some(peer_pid),
        }
    }

    /// Asks the VMM to connect its guest, if not asked yet, and returns whether frames can be sent.
    /// Call this only after the process at the other end is known to be the right VMM.
    pub fn reach_guest(&mut self) -> bool {
        let port = self.address.vsock_port;
        self.state = match (std::mem::replace(&mut self.state, State::Away), port) {
            (State::Accepted { socket, peer_pid }, None) => State::Open { socket, peer_pid },
            (State::Accepted { socket, peer_pid }, Some(port)) => ask(socket, peer_pid, port),
            (state, _) => state,
        };
        matches!(self.state, State::Open { .. })
    }

    /// Closes the connection, and drops all frames that wait.
    pub fn hang_up(&mut self) {
        self.state = State::Away;
        self.outgoing.forget();
    }

    /// Reads the VMM's answer if one is expected. Otherwise writes as much as possible, and
    /// discards bytes from the guest. Never waits. Returns the reason if the connection ended.
    pub fn tick(&mut self) -> Option<Parting> {
        let parting = match &mut self.state {
            State::Away => None,
            State::Asked { .. } => self.hear_answer(),
            State::Accepted { socket, .. } | State::Open { socket, .. } => match discard(socket) {
                Ok(bytes) => {
                    self.discarded_bytes += bytes;
                    let written = self.outgoing.write_to(socket);
                    written.is_err().then_some(Parting::Closed)
                }
                Err(_) => Some(Parting::Closed),
            },
        };
        if parting.is_some() {
            self.hang_up();
        }
        parting
    }

    fn hear_answer(&mut self) -> Option<Parting> {
        let State::Asked {
            socket,
            answer,
            since,
            peer_pid,
        } = &mut self.state
        else {
            return None;
        };
        // The answer is read byte by byte, because the bytes after its line come from the guest.
        let mut byte = [0];
        while answer.last() != Some(&b'\n') {
            match socket.read(&mut byte) {
                Ok(1..) if answer.len() < MAX_ANSWER_BYTES => answer.push(byte[0]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let in_time = since.elapsed() < ANSWER_TIME;
                    return (!in_time).then_some(Parting::NotConnected);
                }
                _ => return Some(Parting::NotConnected),
            }
        }
        if !answer.starts_with(b"OK ") {
            return Some(Parting::NotConnected);
        }
        let peer_pid = *peer_pid;
        if let State::Asked { socket, .. } = std::mem::replace(&mut self.state, State::Away) {
            self.state = State::Open { socket, peer_pid };
        }
        None
    }
}

/// Asks a VMM to connect to the port on which its guest listens.
fn ask(mut socket: UnixStream, peer_pid: u32, port: u32) -> State {
    // A new connection has room for a few bytes. If the connection has ended, the next tick
    // notices.
    let _ = socket.write_all(format!("CONNECT {port}\n").as_bytes());
    State::Asked {
        socket,
        peer_pid,
        answer: Vec::with_capacity(MAX_ANSWER_BYTES),
        since: Instant::now(),
    }
}

/// Reads and discards bytes from the guest, and returns their number. Returns 0 if the guest has
/// sent nothing.
fn discard(socket: &mut UnixStream) -> io::Result<u64> {
    let mut bytes = [0; DISCARD_BYTES];
    match socket.read(&mut bytes) {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(read) => Ok(read as u64),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(0),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::net::UnixListener;

    /// Returns a socket with a listener, and a link to the socket.
    fn pair(kind: &str) -> (tempfile::TempDir, UnixListener, Link) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let address = format!("{kind}:{}", path.display()).parse().unwrap();
        (folder, listener, Link::new(address))
    }

    #[test]
    fn the_other_end_is_who_listens() {
        let (_folder, listener, mut link) = pair("unix");
        assert_eq!(link.peer_pid(), None);
        link.connect().unwrap();
        assert_eq!(link.peer_pid(), Some(std::process::id()));
        assert!(link.reach_guest());
        drop(listener);
        assert!(matches!(link.tick(), Some(Parting::Closed)));
        assert_eq!(link.peer_pid(), None);
        assert!(link.connect().is_err());
        assert_eq!(link.connections, 1);
    }

    #[test]
    fn a_guest_behind_a_vsock_device_is_asked_for() {
        let (_folder, listener, mut link) = pair("vsock");
        link.connect().unwrap();
        let (mut vmm, _) = listener.accept().unwrap();
        assert!(link.tick().is_none());
        vmm.set_nonblocking(true).unwrap();
        let nothing = vmm.read(&mut [0]).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock, "not asked yet");
        assert!(!link.reach_guest());
        let mut asked = [0; 64];
        let length = vmm.read(&mut asked).unwrap();
        assert_eq!(asked[..length], *b"CONNECT 30317\n");
        assert!(link.tick().is_none());
        vmm.write_all(b"OK 10737").unwrap();
        assert!(link.tick().is_none());
        assert!(!link.reach_guest());
        vmm.write_all(b"41824\nand the guest's own words").unwrap();
        assert!(link.tick().is_none());
        assert!(link.reach_guest());
        let again = vmm.read(&mut asked).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::WouldBlock, "asked once");
        link.tick();
        assert_eq!(link.discarded_bytes, 25);
    }

    #[test]
    fn an_answer_that_is_none_ends_it() {
        for answer in ["no\n", "OK", &"O".repeat(1000)] {
            let (_folder, listener, mut link) = pair("vsock");
            link.connect().unwrap();
            link.reach_guest();
            let (mut vmm, _) = listener.accept().unwrap();
            vmm.write_all(answer.as_bytes()).unwrap();
            drop(vmm);
            assert!(
                matches!(link.tick(), Some(Parting::NotConnected)),
                "{answer}"
            );
        }
    }

    #[test]
    fn a_reader_that_never_reads_holds_up_nobody() {
        let (_folder, _listener, mut link) = pair("unix");
        link.connect().unwrap();
        assert!(link.reach_guest());
        let frame = vec![7; 10_000];
        for _ in 0..20 {
            link.outgoing.replace(vec![frame.clone()]);
            assert!(link.tick().is_none());
        }
        assert!(link.outgoing.skipped > 10, "{:?}", link.outgoing.skipped);
        assert!(link.outgoing.bytes < 100_000);
    }

    #[test]
    fn a_listener_that_accepts_nobody_refuses_at_once() {
        let (_folder, _listener, link) = pair("unix");
        let mut waiting = Vec::new();
        for _ in 0..10_000 {
            let mut next = Link::new(link.address.clone());
            if next.connect().is_err() {
                return;
            }
            waiting.push(next);
            if waiting.len() > 500 {
                // The listener's queue on this machine is too long to fill in this test.
                return;
            }
        }
    }
}
