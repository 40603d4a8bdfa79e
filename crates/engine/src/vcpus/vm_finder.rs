//! Thread that finds the VMs of this host and the clocks of their guests. The kernel, /proc and
//! debugfs may be slow, and the loop that drains the ring must not wait for them.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use vmnoise_host::VmProcess;
use vmnoise_tracer::{ClockLook, KnownVms};

use vmnoise_rights::{AttachedWork, threads};

/// Time between two checks whether the known VMs still exist.
const PERIOD: Duration = Duration::from_secs(1);
/// Longest time for which the end of a run waits for the last names.
const LAST_LOOK: Duration = Duration::from_secs(2);

/// Thread that finds VMs, and its channels. Only [`VmFinder::finish`] waits for the thread.
#[derive(Debug)]
pub struct VmFinder {
    newcomers: Sender<Vec<u32>>,
    found: Receiver<FoundVms>,
}

/// Result of one search.
#[derive(Debug)]
pub struct FoundVms {
    /// Processes of new vCPUs that were searched.
    pub looked_at: Vec<u32>,
    /// VMs of these processes that were still alive.
    pub named: Vec<VmProcess>,
    /// All VMs that exist now.
    pub vms: Vec<VmProcess>,
    /// Clocks of the guests, if they are needed. They are read last, so that the VM of every vCPU
    /// in them already has a name.
    pub clocks: Option<ClockLook>,
}

impl VmFinder {
    /// Starts the finder with the known VMs. The first search covers `processes`. With
    /// `with_clocks`, each search also reads the guests' clocks. The thread keeps the rights for
    /// this, so the caller may give them up.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(known: KnownVms, with_clocks: bool, processes: Vec<u32>) -> io::Result<VmFinder> {
        let looker = Looker { known, with_clocks };
        let (newcomers, asked) = channel();
        let (report, found) = channel();
        // The thread is never joined: reading /proc may block it for longer than the run.
        threads::spawn("vmnoise-vms", &[AttachedWork::FindVms], move || {
            find(looker, &asked, &report);
        })?;
        let finder = VmFinder { newcomers, found };
        finder.look_at(processes);
        Ok(finder)
    }

    /// Asks for a search in these processes, which run vCPUs.
    pub fn look_at(&self, processes: Vec<u32>) {
        // If the thread is gone, the VMs keep their process ids as names.
        let _ = self.newcomers.send(processes);
    }

    /// Returns the results since the last call.
    pub fn found(&self) -> impl Iterator<Item = FoundVms> + use<'_> {
        self.found.try_iter()
    }

    /// Asks for a last search. Returns the outstanding results, and whether they are complete.
    pub fn finish(self) -> (Vec<FoundVms>, bool) {
        drop(self.newcomers);
        let end = Instant::now() + LAST_LOOK;
        let mut all = Vec::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.found.recv_timeout(left) {
                Ok(found) => all.push(found),
                Err(error) => return (all, error == RecvTimeoutError::Disconnected),
            }
        }
    }
}

struct Looker {
    known: KnownVms,
    with_clocks: bool,
}

impl Looker {
    fn look_at(&mut self, looked_at: Vec<u32>) -> FoundVms {
        FoundVms {
            named: self.known.look_at(&looked_at),
            looked_at,
            vms: self.known.vms(),
            clocks: self.with_clocks.then(|| ClockLook::at(&self.known)),
        }
    }
}

/// Answers requests until one of the channels closes.
fn find(mut looker: Looker, newcomers: &Receiver<Vec<u32>>, report: &Sender<FoundVms>) {
    let mut next = Instant::now() + PERIOD;
    loop {
        let left = next.saturating_duration_since(Instant::now());
        let asked = newcomers.recv_timeout(left);
        let is_last = asked == Err(RecvTimeoutError::Disconnected);
        let mut looked_at = asked.unwrap_or_default();
        // One search covers all pending requests, so that frequent requests do not queue up.
        looked_at.extend(newcomers.try_iter().flatten());
        if Instant::now() >= next {
            looker.known.forget_gone();
            next = Instant::now() + PERIOD;
        }
        if report.send(looker.look_at(looked_at)).is_err() || is_last {
            return;
        }
    }
}
