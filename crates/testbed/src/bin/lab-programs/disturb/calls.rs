//! Loads that cause work for the kernel at ordinary priority: system calls and interrupts.

use std::convert::Infallible;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::thread::{Builder, sleep};
use std::time::Duration;

use anyhow::Result;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, VsockAddr, connect, socket};
use vmnoise_workload::thread;

/// Number of bytes that one long system call reads.
const ZEROES: usize = 1 << 20;
/// Time between two connections to a guest that does not answer. Each connection costs vhost's
/// worker some us of CPU time. The worker must be among the eight threads with the most CPU time.
const EVERY_CALL: Duration = Duration::from_micros(500);
/// vsock port on which nothing listens.
const PORT: u32 = 1;
/// Period of the timer interrupts.
const EVERY: Duration = Duration::from_micros(200);

/// Makes long system calls, wake-ups, and timer interrupts on this CPU.
pub fn calls(cpu: u32) -> Result<Infallible> {
    thread::pin(&[cpu])?;
    Builder::new().spawn(move || storm(cpu))?;
    Builder::new().spawn(|| {
        loop {
            sleep(EVERY);
        }
    })?;
    let mut zeroes = File::open("/dev/zero")?;
    let mut room = vec![0; ZEROES];
    loop {
        zeroes.read_exact(&mut room)?;
    }
}

/// Lets two threads wake each other in turn on this CPU. Each byte causes one wake-up and two
/// switches.
pub fn storm(cpu: u32) -> Result<()> {
    thread::pin(&[cpu])?;
    let (from_other, to_me) = std::io::pipe()?;
    let (from_me, to_other) = std::io::pipe()?;
    Builder::new().spawn(move || pass_on(from_me, to_me))?;
    (&to_other).write_all(&[0])?;
    pass_on(from_other, to_other)
}

fn pass_on(mut from: std::io::PipeReader, mut to: std::io::PipeWriter) -> Result<()> {
    let mut ball = [0];
    loop {
        from.read_exact(&mut ball)?;
        to.write_all(&ball)?;
    }
}

/// Causes endless work for vhost's worker of the guest with this CID: packets that start a
/// connection.
pub fn vsock(cid: u32) -> Result<Infallible> {
    loop {
        let flags = SockFlag::SOCK_NONBLOCK;
        let caller = socket(AddressFamily::Vsock, SockType::Stream, flags, None)?;
        // This starts the connection, and does not wait for the result.
        let _ = connect(caller.as_raw_fd(), &VsockAddr::new(cid, PORT));
        sleep(EVERY_CALL);
    }
}
