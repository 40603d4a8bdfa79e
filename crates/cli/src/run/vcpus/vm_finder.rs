//! Finds the VMs of this host and the clocks of their guests on a thread of its own: the kernel, /proc and
//! debugfs may take their time, and the loop that drains the ring has none to give.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use vmnoise_host::Vm;
use vmnoise_tracer::{ClockLook, KnownVms};

use vmnoise_rights::{Work, threads};

/// Between two looks whether the VMs that are known are still there.
const PERIOD: Duration = Duration::from_secs(1);
/// How long the end of a run waits for the last names.
const LAST_LOOK: Duration = Duration::from_secs(2);

/// The thread, and the ways to and from it. Nothing but [`VmFinder::finish`] waits for it.
#[derive(Debug)]
pub struct VmFinder {
    newcomers: Sender<Vec<u32>>,
    found: Receiver<Found>,
}

/// What a look has found.
#[derive(Debug)]
pub struct Found {
    /// Processes of newcomers that it was about.
    pub looked_at: Vec<u32>,
    /// What these are called, of those that still lived.
    pub named: Vec<Vm>,
    /// All VMs that are there now.
    pub vms: Vec<Vm>,
    /// The clocks of their guests, where they are asked for. The look came last: a vCPU that is in
    /// it was there when its VM was named.
    pub clocks: Option<ClockLook>,
}

impl VmFinder {
    /// Starts with those that are known, to look at these processes, and at the guests' clocks as well if they are asked for. Its thread has the
    /// rights that this takes; who starts it may give them up.
    ///
    /// # Errors
    /// If there is no room for a thread.
    pub fn start(known: KnownVms, with_clocks: bool, processes: Vec<u32>) -> io::Result<VmFinder> {
        let looker = Looker { known, with_clocks };
        let (newcomers, asked) = channel();
        let (report, found) = channel();
        // Never joined: a file of /proc may keep it for longer than the run.
        threads::spawn("vmnoise-vms", &[Work::FindVms], move || {
            find(looker, &asked, &report);
        })?;
        let finder = VmFinder { newcomers, found };
        finder.look_at(processes);
        Ok(finder)
    }

    /// Has these processes looked at, which run vCPUs.
    pub fn look_at(&self, processes: Vec<u32>) {
        // A thread that is gone has nothing to tell: they are called by their numbers.
        let _ = self.newcomers.send(processes);
    }

    /// What was found since the last call.
    pub fn found(&self) -> impl Iterator<Item = Found> + use<'_> {
        self.found.try_iter()
    }

    /// What is still found of those who were asked for, with a last look, and whether that is all.
    pub fn finish(self) -> (Vec<Found>, bool) {
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
    fn look_at(&mut self, looked_at: Vec<u32>) -> Found {
        Found {
            named: self.known.look_at(&looked_at),
            looked_at,
            vms: self.known.vms(),
            clocks: self.with_clocks.then(|| ClockLook::at(&self.known)),
        }
    }
}

/// Answers until nobody asks or listens any more.
fn find(mut looker: Looker, newcomers: &Receiver<Vec<u32>>, report: &Sender<Found>) {
    let mut next = Instant::now() + PERIOD;
    loop {
        let left = next.saturating_duration_since(Instant::now());
        let asked = newcomers.recv_timeout(left);
        let is_last = asked == Err(RecvTimeoutError::Disconnected);
        let mut looked_at = asked.unwrap_or_default();
        // All that came meanwhile, so that those who ask often are not heard ever later.
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
