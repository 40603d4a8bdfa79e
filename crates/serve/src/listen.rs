//! The listening socket of the server. A service manager hands it over, or this program opens it.

use std::net::{SocketAddr, TcpListener};

use anyhow::{Context, Result, bail};
use listenfd::ListenFd;

/// Returns a listener that does not block. Uses the socket that a service manager handed over
/// (sd_listen_fds(3)). Without such a socket, opens one on `address`.
///
/// # Errors
/// If the address cannot be used. Also if something other than one listening TCP socket was handed
/// over.
pub(crate) fn listener(address: SocketAddr) -> Result<TcpListener> {
    let mut handed_over = ListenFd::from_env();
    let listener = match handed_over.len() {
        0 => TcpListener::bind(address).with_context(|| {
            format!("listening on {address}: choose another address or port with --listen")
        })?,
        1 => handed_over
            .take_tcp_listener(0)
            .ok()
            .flatten()
            .context("the socket of the service manager is not a listening TCP socket: set one ListenStream= with a port")?,
        several => bail!("the service manager handed over {several} sockets: set only one ListenStream="),
    };
    listener
        .set_nonblocking(true)
        .context("preparing to listen")?;
    Ok(listener)
}
