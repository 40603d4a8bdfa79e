//! Single exits and interrupts of one VM at a time, for a stretch of time: after a wait that was too long, or in one
//! second of so many. Their programs are loaded at the start, and attached for these stretches alone.

mod recording;
mod stretch;
mod sums;
mod turns;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vmnoise_events::Name;
use vmnoise_rights::{Work, threads};
use vmnoise_serve_arguments::Occasion;
use vmnoise_tracer::host::Vm;
use vmnoise_tracer::{ExitTracer, LoadError, Streaming};

use crate::dump_folder::Shelf;
use crate::machine::Machine;
use crate::say::say;
use stretch::Looker;
use sums::AllSums;
pub(crate) use sums::Sums;
use turns::Turns;

/// Room for vCPUs of the one VM.
const VCPUS: u32 = 256;
/// How long it is looked at after a wait that was too long, and each time otherwise.
const AFTER_A_WAIT: Duration = Duration::from_secs(10);
const A_TURN: Duration = Duration::from_secs(1);
/// How long the end of it all waits for the file of a stretch.
const LAST: Duration = Duration::from_secs(2);
/// One is under way, and one waits: a turn is over soon.
const WAITING: usize = 1;

/// Loads the programs, with the rights that this takes.
///
/// # Errors
/// If this machine or these rights do not allow it.
pub(crate) fn load() -> Result<ExitTracer, LoadError> {
    ExitTracer::load(VCPUS, Streaming::Stretches)
}

/// The file of what follows a wait, by the name of the dump that ends with it.
pub(crate) fn file_after(dump: &str) -> String {
    let stem = dump.strip_suffix(".vmn").unwrap_or(dump);
    format!("{stem}-exits.vmn")
}

/// The thread that looks, and when it has to.
#[derive(Debug)]
pub(crate) struct Exits {
    orders: SyncSender<Order>,
    shared: Arc<Shared>,
    follows_waits: bool,
    turns: Option<Turns>,
    rests_until_ns: Option<u64>,
}

/// What the thread is told, and tells.
#[derive(Debug, Default)]
struct Shared {
    /// Stretches that were asked for and are not over.
    asked: AtomicU32,
    /// It costs too much: none is begun, and the one under way ends.
    rests: AtomicBool,
    probe_ns: AtomicU64,
    sums: Mutex<AllSums>,
}

/// Whom to look at.
#[derive(Debug)]
struct Order {
    vm: Vm,
    /// The dump of the wait that is the reason, beside which all of it is written down.
    dump: Option<String>,
}

impl Order {
    fn length(&self) -> Duration {
        match self.dump {
            Some(_) => AFTER_A_WAIT,
            None => A_TURN,
        }
    }
}

impl Exits {
    /// On these occasions, by programs that are loaded. With a shelf, where files go.
    ///
    /// # Errors
    /// If there is no room for a thread.
    pub(crate) fn begin(
        tracer: ExitTracer,
        occasions: &[Occasion],
        machine: Machine,
        shelf: Option<Shelf>,
    ) -> Result<Exits> {
        let shared = Arc::new(Shared::default());
        let looker = Looker {
            tracer,
            machine,
            shelf,
            shared: Arc::clone(&shared),
        };
        let (orders, asked) = sync_channel(WAITING);
        threads::spawn("vmnoise-exits", &[Work::WatchExits], move || {
            looker.serve(&asked);
        })
        .context("starting the thread that looks at exits")?;
        let one_in = |occasion: &Occasion| match occasion {
            Occasion::OneIn(seconds) => Some(Turns::new(*seconds)),
            Occasion::Canary => None,
        };
        Ok(Exits {
            orders,
            shared,
            follows_waits: occasions.contains(&Occasion::Canary),
            turns: occasions.iter().find_map(one_in),
            rests_until_ns: None,
        })
    }

    /// Whether it looks at a VM that has waited too long.
    pub(crate) fn follows_waits(&self) -> bool {
        self.follows_waits && self.rests_until_ns.is_none()
    }

    /// Looks at this VM from now on, and writes all of it down beside the dump of that name.
    pub(crate) fn follow_wait(&self, vm: Vm, dump: String) {
        self.order(Order {
            vm,
            dump: Some(dump),
        });
    }

    /// Whose turn it is now, of the VMs of these processes, which ascend.
    pub(crate) fn turn(&mut self, now_ns: u64, vms: impl Iterator<Item = u32>) -> Option<u32> {
        if self.rests_until_ns.is_some_and(|until| now_ns >= until) {
            self.rests_until_ns = None;
            self.shared.rests.store(false, Relaxed);
            say("exits are looked at again");
        }
        let is_free = self.rests_until_ns.is_none() && self.shared.asked.load(Relaxed) == 0;
        let turns = self.turns.as_mut().filter(|_| is_free);
        turns?.take(now_ns, vms)
    }

    /// Looks at this VM for its turn.
    pub(crate) fn take_turn(&self, vm: Vm) {
        self.order(Order { vm, dump: None });
    }

    fn order(&self, order: Order) {
        self.shared.asked.fetch_add(1, Relaxed);
        if self.orders.try_send(order).is_err() {
            self.shared.asked.fetch_sub(1, Relaxed);
        }
    }

    /// Looks at nothing until this instant; whether that makes it cheaper.
    pub(crate) fn rest(&mut self, until_ns: u64) -> bool {
        let has_cost = self.turns.is_some() || self.shared.asked.load(Relaxed) > 0;
        let gives_up = has_cost && self.rests_until_ns.is_none();
        if gives_up {
            self.rests_until_ns = Some(until_ns);
            self.shared.rests.store(true, Relaxed);
        }
        gives_up
    }

    /// Ends the stretch that is under way, so that its file is there, and waits for that; not for ever.
    pub(crate) fn end(&self) {
        self.shared.rests.store(true, Relaxed);
        let until = Instant::now() + LAST;
        while self.shared.asked.load(Relaxed) > 0 && Instant::now() < until {
            sleep(LAST / 100);
        }
    }

    /// What its programs have cost.
    pub(crate) fn probe_ns(&self) -> u64 {
        self.shared.probe_ns.load(Relaxed)
    }

    /// What was counted of each VM, while it was looked at.
    pub(crate) fn sums(&self) -> Vec<(Name, Sums)> {
        let sums = self.shared.sums.lock();
        let sums = sums.unwrap_or_else(PoisonError::into_inner);
        sums.all()
    }

    /// VMs that have ended give their places to others.
    pub(crate) fn are_present(&self, is_present: impl Fn(&Name) -> bool) {
        let sums = self.shared.sums.lock();
        let mut sums = sums.unwrap_or_else(PoisonError::into_inner);
        sums.are_present(is_present);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_what_follows_lies_beside_its_dump() {
        assert_eq!(
            file_after("late-20261125T210540.000Z.vmn"),
            "late-20261125T210540.000Z-exits.vmn"
        );
    }
}
