//! Limits the number of connections, and closes connections that stall.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_io_timeout::TimeoutStream;

/// Largest number of connections at a time. Each connection may hold an answer of 100 KB and one
/// open file. A process may have 1024 open files.
const AT_A_TIME: usize = 128;
/// Time after which a connection is closed if the client does not read the answer.
const WRITE: Duration = Duration::from_secs(30);
/// Time after which a connection is closed if the client sends nothing. It is long, because an open
/// page sends only one request. The page then connects again.
const READ: Duration = Duration::from_secs(600);

/// A listener that accepts no connection while the number of connections is at its limit.
pub(crate) struct Limited<L> {
    inner: L,
    room: Arc<Semaphore>,
}

impl<L> Limited<L> {
    pub(crate) fn new(inner: L) -> Limited<L> {
        let room = Arc::new(Semaphore::new(AT_A_TIME));
        Limited { inner, room }
    }
}

impl<L: Listener> Listener for Limited<L> {
    type Io = Connection<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let room = Arc::clone(&self.room).acquire_owned().await;
        let permit = room.expect("nobody closes it");
        let (io, from) = self.inner.accept().await;
        let mut io = TimeoutStream::new(io);
        io.set_write_timeout(Some(WRITE));
        io.set_read_timeout(Some(READ));
        let io = Box::pin(io);
        let connection = Connection {
            io,
            _permit: permit,
        };
        (connection, from)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.inner.local_addr()
    }
}

/// A connection. Dropping it makes room for another connection.
pub(crate) struct Connection<T> {
    io: Pin<Box<TimeoutStream<T>>>,
    _permit: OwnedSemaphorePermit,
}

impl<T: AsyncRead + AsyncWrite> AsyncRead for Connection<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.io.as_mut().poll_read(cx, buffer)
    }
}

impl<T: AsyncRead + AsyncWrite> AsyncWrite for Connection<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.io.as_mut().poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.as_mut().poll_shutdown(cx)
    }
}
