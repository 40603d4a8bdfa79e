//! What a service manager is told (sd_notify(3)): that it serves, that it lives, that it ends.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The manager that started this process, if one did.
#[derive(Debug)]
pub(crate) struct ServiceManager {
    socket: Option<UnixDatagram>,
}

impl ServiceManager {
    /// By NOTIFY_SOCKET.
    ///
    /// # Errors
    /// If that socket cannot be connected to.
    pub(crate) fn of_environment() -> io::Result<ServiceManager> {
        let connected = |name| {
            let socket = UnixDatagram::unbound()?;
            socket.connect_addr(&address(&name)?)?;
            // Whoever is asked for metrics waits for no manager.
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = env::var_os("NOTIFY_SOCKET").map(connected).transpose();
        socket.map(|socket| ServiceManager { socket })
    }

    /// It serves from here on.
    pub(crate) fn ready(&self) {
        self.tell("READY=1");
    }

    /// It is at work, and not stuck.
    pub(crate) fn alive(&self) {
        self.tell("WATCHDOG=1");
    }

    /// It has begun to end.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// A manager that is gone, or does not read, misses nothing.
    fn tell(&self, what: &str) {
        if let Some(socket) = &self.socket {
            let _ = socket.send(what.as_bytes());
        }
    }
}

/// `@` is how an abstract name is written.
fn address(name: &OsString) -> io::Result<SocketAddr> {
    match name.as_bytes().strip_prefix(b"@") {
        Some(rest) => SocketAddr::from_abstract_name(rest),
        None => SocketAddr::from_pathname(name),
    }
}
