//! Records each exit and interrupt of one VM at a time: after a dump, on request, or during one
//! second in N. The programs are loaded at the start, and are attached only while exits are
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

/// Largest number of vCPUs of a recorded VM.
const VCPUS: u32 = 256;
/// Length of a recording after a dump. [`A_TURN`] is the length of a turn.
const AFTER_A_DUMP: Duration = Duration::from_secs(10);
const A_TURN: Duration = Duration::from_secs(1);
/// Longest time for which the end of the program waits for the last file.
const LAST: Duration = Duration::from_secs(2);
/// Largest number of orders that wait while another order is served. One is enough, because turns
/// are short.
const WAITING: usize = 1;

/// Loads the programs. This process must still have the rights for loading.
///
/// # Errors
/// If this machine or these rights do not allow it.
pub(crate) fn load() -> Result<ExitTracer, LoadError> {
    ExitTracer::load(VCPUS, Streaming::Stretches)
}

/// Returns the reference by which a dump names the recording that follows the dump. `vm` is the
/// recorded VM.
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

/// Sends orders to the thread that records exits, and decides when to record.
#[derive(Debug)]
pub(crate) struct Exits {
    orders: SyncSender<Order>,
    shared: Arc<Shared>,
    follows_dumps: bool,
    takes_requests: bool,
    turns: Option<Turns>,
    rests_until_ns: Option<u64>,
}

/// State that the main loop shares with the thread that records.
#[derive(Debug, Default)]
struct Shared {
    /// Number of orders that are queued or being served.
    asked: AtomicU32,
    /// Whether one of these orders is a request of a client, whose recording may take up to a
    /// minute.
    is_for_a_request: AtomicBool,
    /// Whether the recording of exits is paused because of its cost. In a pause, no order is
    /// served, and the current recording ends early.
    rests: AtomicBool,
    probe_ns: AtomicU64,
    sums: Mutex<AllSums>,
}

/// An order to record the exits of a VM for a purpose.
#[derive(Debug)]
struct Order {
    vm: VmProcess,
    purpose: Purpose,
}

/// Purpose of a recording.
#[derive(Debug)]
enum Purpose {
    /// A turn: exits are only counted.
    Turn,
    /// Writes a file next to the dump with this name.
    AfterDump(String),
    /// Records for `length`, and sends the recording to a waiting client.
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

/// Sending end of the channel for a requested recording. The thread drops it if the recording
/// fails. [`Asked`] is the receiving end.
type Answer = oneshot::Sender<Vec<u8>>;
pub(crate) type Asked = oneshot::Receiver<Vec<u8>>;

/// Reason why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// `vmnoise serve` was started without the option for requests.
    NotOffered,
    /// No VM has this name.
    Unknown,
    /// Another order is queued or being served.
    Busy,
    /// The recording of exits is paused because of its cost.
    Rests,
}

impl Exits {
    /// Starts the thread that records. `occasions` are the enabled reasons to record. If `shelf` is
    /// `Some`, recordings after dumps are written there.
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

    /// Returns whether the VM of a dump can be recorded now. Returns false during a requested
    /// recording, because it may take a minute and the recording after the dump would begin too
    /// late.
    pub(crate) fn follows_dumps(&self) -> bool {
        let is_free = !self.shared.is_for_a_request.load(Relaxed);
        self.follows_dumps && self.rests_until_ns.is_none() && is_free
    }

    /// Orders a recording of this VM from now on, as a file next to the dump with this name.
    pub(crate) fn follow_dump(&self, vm: VmProcess, dump: String) {
        self.order(Order {
            vm,
            purpose: Purpose::AfterDump(dump),
        });
    }

    /// Returns whether clients may request recordings.
    pub(crate) fn takes_requests(&self) -> bool {
        self.takes_requests
    }

    /// Orders a recording of this VM for `length`. It ends early if the receiver is dropped.
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

    /// Returns the VM whose turn begins at `now_ns` (CLOCK_MONOTONIC in ns). `vms` are the process
    /// ids of all VMs in ascending order.
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

    /// Orders a recording of this VM during its turn.
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

    /// Pauses the recording of exits until `until_ns` (CLOCK_MONOTONIC in ns). Returns whether this
    /// pause lowers the cost. If not, does nothing.
    pub(crate) fn rest(&mut self, until_ns: u64) -> bool {
        let has_cost = self.turns.is_some() || self.shared.asked.load(Relaxed) > 0;
        let gives_up = has_cost && self.rests_until_ns.is_none();
        if gives_up {
            self.rests_until_ns = Some(until_ns);
            self.shared.rests.store(true, Relaxed);
        }
        gives_up
    }

    /// Ends the current recording so that its file is complete. Waits at most [`LAST`] for the
    /// file.
    pub(crate) fn end(&self) {
        self.shared.rests.store(true, Relaxed);
        let until = Instant::now() + LAST;
        while self.shared.asked.load(Relaxed) > 0 && Instant::now() < until {
            sleep(LAST / 100);
        }
    }

    /// Returns the CPU time of the programs, in ns.
    pub(crate) fn probe_ns(&self) -> u64 {
        self.shared.probe_ns.load(Relaxed)
    }

    /// Returns the number of recorded exits of each VM.
    pub(crate) fn sums(&self) -> Vec<(Name, Sums)> {
        let sums = self.shared.sums.lock();
        let sums = sums.unwrap_or_else(PoisonError::into_inner);
        sums.all()
    }

    /// Marks the VMs that are no longer present as ended, so that other VMs can replace them.
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
