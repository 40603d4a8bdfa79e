//! Reads from the kernel's log which processes the kernel killed because memory ran out.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

use anyhow::{Context, Result};
use rustix::fs::OFlags;

const LOG: &str = "/dev/kmsg";

/// A process that the kernel killed because memory ran out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Victim {
    pub(super) pid: u32,
    /// Anonymous memory of the process, in KiB.
    pub(super) anon_kib: u64,
}

/// The messages of the kernel's log since this value was created. Each read returns one message
/// (Documentation/ABI/testing/dev-kmsg).
#[derive(Debug)]
pub(super) struct KernelLog(File);

impl KernelLog {
    pub(super) fn from_now_on() -> Result<KernelLog> {
        let mut options = File::options();
        let no_wait = OFlags::NONBLOCK.bits().cast_signed();
        let mut log = options.read(true).custom_flags(no_wait).open(LOG)?;
        log.seek(SeekFrom::End(0)).context(LOG)?;
        Ok(KernelLog(log))
    }

    /// Returns the processes that the kernel has killed since the last call, in order.
    pub(super) fn victims(&mut self) -> Result<Vec<Victim>> {
        let mut victims = Vec::new();
        // Maximum length of a message in bytes (kernel/printk/internal.h).
        let mut message = [0; 2_048];
        loop {
            match self.0.read(&mut message) {
                Ok(length) => victims.extend(victim(&String::from_utf8_lossy(&message[..length]))),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(victims),
                Err(error) => return Err(error).context(LOG),
            }
        }
    }
}

/// Returns the process that this message names as killed; `None` if the message is not from
/// `__oom_kill_process` in mm/oom_kill.c.
fn victim(message: &str) -> Option<Victim> {
    let (_, victim) = message.split_once("Out of memory: Killed process ")?;
    let (pid, rest) = victim.split_once(' ')?;
    let (_, anon) = rest.split_once("anon-rss:")?;
    let (anon, _) = anon.split_once("kB")?;
    Some(Victim {
        pid: pid.parse().ok()?,
        anon_kib: anon.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_victim_is_read_and_no_other_message() {
        let killed = "3,402,15360710,-;Out of memory: Killed process 123 (a) b) total-vm:788676kB, \
                      anon-rss:784872kB, file-rss:4kB, shmem-rss:1592kB, UID:0 pgtables:1580kB oom_score_adj:1000\n";
        let expected = Victim {
            pid: 123,
            anon_kib: 784_872,
        };
        assert_eq!(victim(killed), Some(expected));
        assert_eq!(victim("6,7,8,-;oom_reaper: reaped process 123 (a)"), None);
    }
}
