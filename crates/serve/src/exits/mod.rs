//! Single exits and interrupts of one VM at a time, for a stretch of time: after a dump, when somebody asks, or in one
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
use tokio::sync::oneshot;
use vmnoise_events::Name;
use vmnoise_host::Vm;
use vmnoise_rights::{Work, threads};
use vmnoise_serve_arguments::Occasion;
use vmnoise_tracer::{ExitTracer, LoadError, Streaming};

use crate::dump_folder::Shelf;
use crate::flight::Beside;
use crate::machine::Machine;
use crate::say::say;
use stretch::Looker;
use sums::AllSums;
pub(crate) use sums::Sums;
use turns::Turns;

/// Room for vCPUs of the one VM.
const VCPUS: u32 = 256;
/// How long it is looked at after a dump, and for its turn.
const AFTER_A_DUMP: Duration = Duration::from_secs(10);
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

/// What a dump of this name says of the file that follows it, and is about this VM.
pub(crate) fn beside(dump: &str, vm: &Name) -> Beside {
    Beside {
        vm: vm.clone(),
        file: file_after(dump),
    }
}

/// The file of what follows a dump, by its name.
fn file_after(dump: &str) -> String {
    let stem = dump.strip_suffix(".vmn").unwrap_or(dump);
    format!("{stem}-exits.vmn")
}

/// The thread that looks, and when it has to.
#[derive(Debug)]
pub(crate) struct Exits {
    orders: SyncSender<Order>,
    shared: Arc<Shared>,
    follows_dumps: bool,
    takes_requests: bool,
    turns: Option<Turns>,
    rests_until_ns: Option<u64>,
}

/// What the thread is told, and tells.
#[derive(Debug, Default)]
struct Shared {
    /// Stretches that were asked for and are not over.
    asked: AtomicU32,
    /// One of them is for whoever waits for it, and may be long.
    is_for_a_request: AtomicBool,
    /// It costs too much: none is begun, and the one under way ends.
    rests: AtomicBool,
    probe_ns: AtomicU64,
    sums: Mutex<AllSums>,
}

/// Whom to look at.
#[derive(Debug)]
struct Order {
    vm: Vm,
    purpose: Purpose,
}

/// What becomes of it.
#[derive(Debug)]
enum Purpose {
    /// Counts alone.
    Turn,
    /// A file beside the dump of this name.
    AfterDump(String),
    /// A recording for whoever waits for it.
    Request { length: Duration, answer: Answer },
}

impl Purpose {
    fn length(&self) -> Duration {
        match self {
            Purpose::Turn => A_TURN,
            Purpose::AfterDump(_) => AFTER_A_DUMP,
            Purpose::Request { length, .. } => *length,
        }
    }
}

/// Where a recording goes that was asked for, and where it comes from: nothing does where it could not be made.
type Answer = oneshot::Sender<Vec<u8>>;
pub(crate) type Asked = oneshot::Receiver<Vec<u8>>;

/// Why a request cannot be met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It was not started so.
    NotOffered,
    /// There is no VM of this name.
    Unknown,
    /// Another stretch is under way.
    Busy,
    /// It has cost too much.
    Rests,
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
            Occasion::Canary | Occasion::Request => None,
        };
        Ok(Exits {
            orders,
            shared,
            follows_dumps: occasions.contains(&Occasion::Canary),
            takes_requests: occasions.contains(&Occasion::Request),
            turns: occasions.iter().find_map(one_in),
            rests_until_ns: None,
        })
    }

    /// Whether it looks at the VM that a dump is about: after a request, which may take a minute, it would be too late.
    pub(crate) fn follows_dumps(&self) -> bool {
        let is_free = !self.shared.is_for_a_request.load(Relaxed);
        self.follows_dumps && self.rests_until_ns.is_none() && is_free
    }

    /// Looks at this VM from now on, and writes all of it down beside the dump of that name.
    pub(crate) fn follow_dump(&self, vm: Vm, dump: String) {
        self.order(Order {
            vm,
            purpose: Purpose::AfterDump(dump),
        });
    }

    /// Whether anybody may ask for exits.
    pub(crate) fn takes_requests(&self) -> bool {
        self.takes_requests
    }

    /// Looks at this VM from now on for so long, or until what comes of it is dropped.
    ///
    /// # Errors
    /// If it looks at another one, or rests.
    pub(crate) fn request(&self, vm: Vm, length: Duration) -> Result<Asked, Refusal> {
        if self.rests_until_ns.is_some() {
            return Err(Refusal::Rests);
        }
        if self.shared.asked.load(Relaxed) > 0 {
            return Err(Refusal::Busy);
        }
        let (answer, asked) = oneshot::channel();
        let purpose = Purpose::Request { length, answer };
        self.shared.is_for_a_request.store(true, Relaxed);
        self.order(Order { vm, purpose });
        Ok(asked)
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
        self.order(Order {
            vm,
            purpose: Purpose::Turn,
        });
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
