//! Records single exits and interrupts of one VM at a time for a while: after a dump, on request,
//! or one second in N. The programs are loaded at the start, and attached only while exits are
//! recorded.

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
use vmnoise_host::VmProcess;
use vmnoise_rights::{AttachedWork, threads};
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

/// Room for the vCPUs of one VM.
const VCPUS: u32 = 256;
/// Recorded time after a dump, and of one turn.
const AFTER_A_DUMP: Duration = Duration::from_secs(10);
const A_TURN: Duration = Duration::from_secs(1);
/// Time for which the end of the program waits for the last file.
const LAST: Duration = Duration::from_secs(2);
/// Orders that wait while another is served: turns are short.
const WAITING: usize = 1;

/// Loads the programs, while the rights for it are still held.
///
/// # Errors
/// If this machine or these rights do not allow it.
pub(crate) fn load() -> Result<ExitTracer, LoadError> {
    ExitTracer::load(VCPUS, Streaming::Stretches)
}

/// Returns the reference of a dump to the recording that follows it, of this VM.
pub(crate) fn beside(dump: &str, vm: &Name) -> Beside {
    Beside {
        vm: vm.clone(),
        file: file_after(dump),
    }
}

/// Returns the name of the recording that follows a dump.
fn file_after(dump: &str) -> String {
    let stem = dump.strip_suffix(".vmn").unwrap_or(dump);
    format!("{stem}-exits.vmn")
}

/// Handle of the thread that records exits, and the occasions for it.
#[derive(Debug)]
pub(crate) struct Exits {
    orders: SyncSender<Order>,
    shared: Arc<Shared>,
    follows_dumps: bool,
    takes_requests: bool,
    turns: Option<Turns>,
    rests_until_ns: Option<u64>,
}

/// State shared with the thread.
#[derive(Debug, Default)]
struct Shared {
    /// Orders that are queued or being served.
    asked: AtomicU32,
    /// True while one of them is a request, which may take long.
    is_for_a_request: AtomicBool,
    /// True while exits are paused for their cost: no order is served, and the current one ends.
    rests: AtomicBool,
    probe_ns: AtomicU64,
    sums: Mutex<AllSums>,
}

/// A VM to record, and the purpose.
#[derive(Debug)]
struct Order {
    vm: VmProcess,
    purpose: Purpose,
}

/// Purpose of a recording.
#[derive(Debug)]
enum Purpose {
    /// Counts only.
    Turn,
    /// A file next to the dump of this name.
    AfterDump(String),
    /// A recording for a client that waits for it.
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

/// Two ends of the channel for a requested recording. The sender is dropped if the recording fails.
type Answer = oneshot::Sender<Vec<u8>>;
pub(crate) type Asked = oneshot::Receiver<Vec<u8>>;

/// Reason to refuse a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The program was not started with this option.
    NotOffered,
    /// No VM has this name.
    Unknown,
    /// Exits are being recorded already.
    Busy,
    /// Exits are paused for their cost.
    Rests,
}

impl Exits {
    /// Starts the thread, for these occasions. Files go to the shelf, if there is one.
    ///
    /// # Errors
    /// If the thread cannot be started.
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
        threads::spawn("vmnoise-exits", &[AttachedWork::WatchExits], move || {
            looker.serve(&asked);
        })
        .context("starting the thread that records exits")?;
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

    /// Returns true if the VM of a dump can be recorded now. A request may take a minute, after
    /// which it would be too late.
    pub(crate) fn follows_dumps(&self) -> bool {
        let is_free = !self.shared.is_for_a_request.load(Relaxed);
        self.follows_dumps && self.rests_until_ns.is_none() && is_free
    }

    /// Records this VM from now on, into a file next to the dump of this name.
    pub(crate) fn follow_dump(&self, vm: VmProcess, dump: String) {
        self.order(Order {
            vm,
            purpose: Purpose::AfterDump(dump),
        });
    }

    /// Returns true if requests are enabled.
    pub(crate) fn takes_requests(&self) -> bool {
        self.takes_requests
    }

    /// Records this VM for `length`, or until the receiver is dropped.
    ///
    /// # Errors
    /// If exits are being recorded already, or are paused.
    pub(crate) fn request(&self, vm: VmProcess, length: Duration) -> Result<Asked, Refusal> {
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

    /// Returns the VM whose turn begins now. `vms` are processes in ascending order.
    pub(crate) fn turn(&mut self, now_ns: u64, vms: impl Iterator<Item = u32>) -> Option<u32> {
        if self.rests_until_ns.is_some_and(|until| now_ns >= until) {
            self.rests_until_ns = None;
            self.shared.rests.store(false, Relaxed);
            say("exits are recorded again");
        }
        let is_free = self.rests_until_ns.is_none() && self.shared.asked.load(Relaxed) == 0;
        let turns = self.turns.as_mut().filter(|_| is_free);
        turns?.take(now_ns, vms)
    }

    /// Records this VM for its turn.
    pub(crate) fn take_turn(&self, vm: VmProcess) {
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

    /// Pauses until this instant. Returns true if this lowers the cost.
    pub(crate) fn rest(&mut self, until_ns: u64) -> bool {
        let has_cost = self.turns.is_some() || self.shared.asked.load(Relaxed) > 0;
        let gives_up = has_cost && self.rests_until_ns.is_none();
        if gives_up {
            self.rests_until_ns = Some(until_ns);
            self.shared.rests.store(true, Relaxed);
        }
        gives_up
    }

    /// Ends the current recording so that its file is complete, and waits for it for a limited
    /// time.
    pub(crate) fn end(&self) {
        self.shared.rests.store(true, Relaxed);
        let until = Instant::now() + LAST;
        while self.shared.asked.load(Relaxed) > 0 && Instant::now() < until {
            sleep(LAST / 100);
        }
    }

    /// Returns the CPU time of the programs.
    pub(crate) fn probe_ns(&self) -> u64 {
        self.shared.probe_ns.load(Relaxed)
    }

    /// Returns the counts of each VM.
    pub(crate) fn sums(&self) -> Vec<(Name, Sums)> {
        let sums = self.shared.sums.lock();
        let sums = sums.unwrap_or_else(PoisonError::into_inner);
        sums.all()
    }

    /// Marks VMs that have ended, so that others can replace them.
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
