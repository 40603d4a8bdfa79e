//! Answers guests that request a dump of their VM. A guest sends the line `dump` over a socket of
//! its VMM. The kernel names the process at the other end of the socket, and [`Watch`] identifies
//! the VM by this process. Everything else that a guest sends is ignored.

use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};
use vmnoise_events::Name;
use vmnoise_feed::FeedAddress;
use vmnoise_host::Host;

use crate::say::say;
use crate::watch::Watch;

/// Interval between attempts to connect to a socket on which no process listens.
const AGAIN: Duration = Duration::from_secs(1);
/// Longest time that a VMM may take to connect to its guest.
const ANSWER_TIME: Duration = Duration::from_secs(2);
/// Largest number of bytes of one read. Together with [`PAUSE`], the time between two reads, it
/// limits the cost of a guest that floods the socket.
const READ_BYTES: usize = 4 << 10;
const PAUSE: Duration = Duration::from_millis(20);
/// Line by which a guest requests a dump.
const ASKS: &[u8] = b"dump";

/// Starts one task for each of these sockets. The task answers the requests of the guest at the
/// socket.
pub(crate) fn hear_all(addresses: &[FeedAddress], watch: &Arc<Mutex<Watch>>) {
    for address in addresses {
        let guest = Guest {
            address: address.clone(),
            watch: Arc::clone(watch),
        };
        tokio::spawn(guest.go_on());
    }
}

/// A guest that may request dumps.
struct Guest {
    address: FeedAddress,
    watch: Arc<Mutex<Watch>>,
}

/// A process. The start time distinguishes it from a later process with the same process id.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Process {
    number: u32,
    started_ticks: u64,
}

impl Process {
    fn of(number: u32) -> Option<Process> {
        let started_ticks = Host::here().place(number).ok()?.started_ticks;
        Some(Process {
            number,
            started_ticks,
        })
    }
}

impl Guest {
    /// Answers requests for ever. Logs an error once, and again only after the error has changed.
    async fn go_on(self) {
        let mut told = String::new();
        loop {
            if let Err(error) = self.hear().await {
                let why = format!("dumps for {}: {error:#}", self.address);
                if why != told {
                    say(&why);
                    told = why;
                }
            }
            sleep(AGAIN).await;
        }
    }

    /// Connects to the VMM, and answers the guest's requests until the connection ends.
    async fn hear(&self) -> Result<()> {
        let mut stream = UnixStream::connect(&self.address.path).await?;
        let peer = stream.peer_cred()?.pid().unwrap_or_default().unsigned_abs();
        let vmm = Process::of(peer).filter(|vmm| self.vm_of(*vmm).is_some());
        let vmm = vmm.with_context(|| {
            format!("process {peer}, which listens there, runs no vCPU of this host, or vCPUs of several VMs")
        })?;
        if let Some(port) = self.address.vsock_port {
            timeout(ANSWER_TIME, reach_guest(&mut stream, port))
                .await
                .context("the VMM does not answer")??;
        }
        let mut lines = Lines::default();
        let mut bytes = vec![0; READ_BYTES];
        loop {
            let read = stream.read(&mut bytes).await?;
            ensure!(read > 0, "the VMM has closed its socket");
            if lines.ask(&bytes[..read]) {
                let Some(vm) = self.vm_of(vmm) else {
                    bail!("the VM has ended");
                };
                let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
                let answer = match watch.dump_for(vmm.number, vm) {
                    Ok(name) => line(name),
                    Err(why) => line(format_args!("no: {why}")),
                };
                drop(watch);
                // `try_write` does not wait for a guest that does not read.
                _ = stream.try_write(answer.as_bytes());
            }
            sleep(PAUSE).await;
        }
    }

    /// Returns the VM of this process; `None` if another process has this process id now.
    fn vm_of(&self, vmm: Process) -> Option<Name> {
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let vm = watch.vm_of_process(vmm.number)?;
        (Process::of(vmm.number) == Some(vmm)).then_some(vm)
    }
}

fn line(words: impl Display) -> String {
    format!("{words}\n")
}

/// Requests a connection from the VMM to this port of its guest (docs/feed.md).
async fn reach_guest(stream: &mut UnixStream, port: u32) -> Result<()> {
    let ask = format!("CONNECT {port}\n");
    stream.write_all(ask.as_bytes()).await?;
    // Reads byte by byte, because the bytes after this line are sent by the guest.
    let mut answer = Vec::new();
    while answer.last() != Some(&b'\n') && answer.len() < 32 {
        answer.push(stream.read_u8().await?);
    }
    ensure!(
        answer.starts_with(b"OK "),
        "no process in the guest listens on port {port}"
    );
    Ok(())
}

/// Finds lines in the text that a guest sends.
#[derive(Debug, Default)]
struct Lines {
    /// Begin of the current line. At most one byte more than the length of `dump` is kept, which is
    /// enough to distinguish longer lines.
    begun: Vec<u8>,
}

impl Lines {
    /// Returns whether one of the lines that end in `bytes` is the request.
    fn ask(&mut self, bytes: &[u8]) -> bool {
        let mut asks = false;
        for byte in bytes {
            match byte {
                b'\n' => {
                    asks |= self.begun == ASKS;
                    self.begun.clear();
                }
                // A terminal ends lines with CR LF.
                b'\r' => {}
                _ if self.begun.len() <= ASKS.len() => self.begun.push(*byte),
                _ => {}
            }
        }
        asks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_asks_and_nothing_else_does() {
        let asks = |parts: &[&str]| {
            let mut lines = Lines::default();
            let asked = parts.iter().map(|part| lines.ask(part.as_bytes()));
            asked.collect::<Vec<bool>>()
        };
        assert_eq!(asks(&["dump\n"]), [true]);
        assert_eq!(asks(&["dump\r\n"]), [true]);
        assert_eq!(asks(&["du", "mp", "\n"]), [false, false, true]);
        assert_eq!(asks(&["xx\ndump\nyy\n"]), [true]);
        for other in ["dump", "dumps\n", "xdump\n", "dum\n", "\n", "dump it\n"] {
            assert_eq!(asks(&[other]), [false], "{other:?}");
        }
        let long = "x".repeat(100_000);
        assert_eq!(asks(&[&long, "dump\n", "dump\n"]), [false, false, true]);
    }
}
