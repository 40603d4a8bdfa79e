//! Messages to the service manager (sd_notify(3)): ready, alive, stopping.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The service manager that started this process, if there is one.
#[derive(Debug)]
pub(crate) struct ServiceManager {
    socket: Option<UnixDatagram>,
}

impl ServiceManager {
    /// Connects to the socket that NOTIFY_SOCKET names. Without this variable, does nothing.
    ///
    /// # Errors
    /// If the connection to the socket fails.
    pub(crate) fn of_environment() -> io::Result<ServiceManager> {
        let connected = |name| {
            let socket = UnixDatagram::unbound()?;
            socket.connect_addr(&address(&name)?)?;
            // A request for metrics must not wait for the manager.
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = env::var_os("NOTIFY_SOCKET").map(connected).transpose();
        socket.map(|socket| ServiceManager { socket })
    }

    /// Reports that the server runs.
    pub(crate) fn ready(&self) {
        self.tell("READY=1");
    }

    /// Reports that the main loop still runs.
    pub(crate) fn alive(&self) {
        self.tell("WATCHDOG=1");
    }

    /// Reports that the program begins to end.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// Sends a message. Ignores errors, for instance if the manager has ended or does not read.
    fn tell(&self, what: &str) {
        if let Some(socket) = &self.socket {
            let _ = socket.send(what.as_bytes());
        }
    }
}

/// Converts a socket name to an address. A name that begins with `@` is an abstract name.
fn address(name: &OsString) -> io::Result<SocketAddr> {
    match name.as_bytes().strip_prefix(b"@") {
        Some(rest) => SocketAddr::from_abstract_name(rest),
        None => SocketAddr::from_pathname(name),
    }
}
