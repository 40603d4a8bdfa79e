//! Checks whether a load is already active. A measurement before this would have no load.

use std::fs;

use vmnoise_testbed::{schedstat, stress_ng};

use crate::scenario::Load;

/// Name of the program that makes system calls and interrupts at ordinary priority.
pub(super) const CALLS: &str = "lab-disturb";
/// Number of received packets above which the load is active. Setting up a link needs fewer.
const PACKETS: u64 = 64;

/// Returns whether the process `pid` of this load is active. A new process runs its own program
/// only after a moment. A process that has ended cannot be read.
pub(super) fn is(load: Load, pid: u32) -> bool {
    match load {
        Load::SystemCalls => schedstat::has_worked(pid, CALLS).unwrap_or(false),
        Load::StressNg => stress_ng::is_at_work(pid),
        Load::Network | Load::NetworkElsewhere => {
            received_in_its_own(pid).is_some_and(|it| it > PACKETS)
        }
        Load::Idle | Load::Bursts => true,
    }
}

/// Returns the number of packets that the process received in its own network namespace. `None` if
/// the process has no own namespace yet.
fn received_in_its_own(pid: u32) -> Option<u64> {
    let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
    let is_in_its_own = network(&pid.to_string())? != network("self")?;
    let links = fs::read_to_string(format!("/proc/{pid}/net/dev")).ok()?;
    received(&links).filter(|_| is_in_its_own)
}

/// Returns the number of packets received on the loopback link. The line is `lo: BYTES PACKETS …`
/// (proc_pid_net(5)).
fn received(links: &str) -> Option<u64> {
    let mut lines = links.lines();
    let numbers = lines.find_map(|line| line.trim().strip_prefix("lo:"))?;
    numbers.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_those_that_were_received() {
        let links = "Inter-|   Receive                            |  Transmit\n \
                     face |bytes    packets errs drop fifo frame compressed multicast|bytes\n    \
                     lo: 4800032 3200 0 0 0 0 0 0 4800032 3201 0 0 0 0 0 0\n";
        assert_eq!(received(links), Some(3_200));
        assert_eq!(received(""), None);
    }
}
