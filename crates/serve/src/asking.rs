//! Guests that ask for a dump of their VM, by the line `dump` over a socket of their VMM. The
//! kernel names the process at the other end, and this process identifies the VM. Everything else
//! that the guest sends is ignored.

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

/// Interval between attempts on a socket on which no process listens.
const AGAIN: Duration = Duration::from_secs(1);
/// Time that a VMM may take to answer for its guest.
const ANSWER_TIME: Duration = Duration::from_secs(2);
/// Limits for a guest that floods: bytes of one read, and time between two reads.
const READ_BYTES: usize = 4 << 10;
const PAUSE: Duration = Duration::from_millis(20);
/// Line by which a guest asks.
const ASKS: &[u8] = b"dump";

/// Starts one task for each of these sockets, which answers the requests of its guest.
pub(crate) fn hear_all(addresses: &[FeedAddress], watch: &Arc<Mutex<Watch>>) {
    for address in addresses {
        let guest = Guest {
            address: address.clone(),
            watch: Arc::clone(watch),
        };
        tokio::spawn(guest.go_on());
    }
}

/// A guest that may ask for dumps.
struct Guest {
    address: FeedAddress,
    watch: Arc<Mutex<Watch>>,
}

/// A process; the start time distinguishes it from a later one with the same number.
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
    /// Runs for ever. Logs an error once, until it changes.
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

    /// Connects to the VMM, and answers the guest until the connection ends.
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
                // Do not wait for a guest that does not read.
                _ = stream.try_write(answer.as_bytes());
            }
            sleep(PAUSE).await;
        }
    }

    /// Returns the VM of this process, if the process is still the same.
    fn vm_of(&self, vmm: Process) -> Option<Name> {
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let vm = watch.vm_of_process(vmm.number)?;
        (Process::of(vmm.number) == Some(vmm)).then_some(vm)
    }
}

fn line(words: impl Display) -> String {
    format!("{words}\n")
}

/// Asks a VMM for the guest that listens on this port (docs/feed.md).
async fn reach_guest(stream: &mut UnixStream, port: u32) -> Result<()> {
    let ask = format!("CONNECT {port}\n");
    stream.write_all(ask.as_bytes()).await?;
    // Byte by byte: the bytes after this line belong to the guest.
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

/// Text of a guest, cut into lines.
#[derive(Debug, Default)]
struct Lines {
    /// Begin of the current line: at most one byte more than the line `dump`, which is enough to
    /// tell them apart.
    begun: Vec<u8>,
}

impl Lines {
    /// Returns true if one of the lines that end in these bytes is the request.
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
