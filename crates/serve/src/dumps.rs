//! Automatic dumps: after a long wait or another loss, after a signal, or when a guest requests a
//! dump.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use anyhow::Result;
use jiff::Timestamp;
use prometheus_client::metrics::exemplar::CounterWithExemplar;
use vmnoise_events::Name;
use vmnoise_host::Host;
use vmnoise_serve_arguments::{DumpLimit, Sign};

use crate::canary::Canary;
use crate::clock::{now_ns, seconds};
use crate::dump_folder::{self, Counts, DumpFolder, Kind, Shelf};
use crate::flight::Wanted;
use crate::ledger::VmTotals;
use crate::signs::{Finding, Signs, Sums, VmSums};

/// Content of a dump: the last 90 s of all VMs. Dumps are at least 60 s apart, so a dump overlaps
/// the previous dump.
pub(crate) const WANTED: Wanted = Wanted {
    last_ns: Some(90_000_000_000),
    vm: None,
    vmm_pid: None,
};
/// Shortest time in ns between two dumps for one guest. Events between two requests are in the
/// later dump. [`GUESTS_APART_NS`] is the shortest time in ns between two dumps for any guests. It
/// limits the cost for the host.
const GUEST_APART_NS: u64 = 60_000_000_000;
const GUESTS_APART_NS: u64 = 5_000_000_000;
/// Largest number of VMs whose last dump is remembered.
const EXEMPLARS: usize = 1024;

/// Exemplar of a wait, which names the dump that contains the wait. The type is that of a counter,
/// because the library makes exemplars only for its own counters.
pub(crate) type Exemplar = CounterWithExemplar<Vec<(&'static str, String)>, f64, AtomicU64>;

/// Returns the file name of a dump that is made now.
pub(crate) fn name() -> String {
    dump_folder::name(Kind::Late, Timestamp::now())
}

/// Returns the file name of a dump that is made now for a guest.
pub(crate) fn name_for_guest() -> String {
    dump_folder::name(Kind::Asked, Timestamp::now())
}

/// All reasons for the dump that is due now.
#[derive(Debug, Default)]
pub(crate) struct Due {
    /// VMs with a wait longer than the limit.
    pub(crate) waited: Vec<Name>,
    pub(crate) found: Vec<Finding>,
}

/// Number of dumps by reason. A dump counts for each of its reasons.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reasons {
    wait: u64,
    quota: u64,
    steal: u64,
    pressure: u64,
    signal: u64,
    guest: u64,
}

impl Reasons {
    /// Returns the number of dumps for each reason, with the reason's name.
    pub(crate) fn counts(&self) -> [(&'static str, u64); 6] {
        [
            ("wait", self.wait),
            (Sign::Quota.name(), self.quota),
            (Sign::Steal.name(), self.steal),
            (Sign::Pressure.name(), self.pressure),
            ("signal", self.signal),
            ("guest", self.guest),
        ]
    }

    fn of_sign(&mut self, sign: Sign) -> &mut u64 {
        match sign {
            Sign::Quota => &mut self.quota,
            Sign::Steal => &mut self.steal,
            Sign::Pressure => &mut self.pressure,
        }
    }
}

/// The folder for dumps, and the checks that find reasons for dumps.
#[derive(Debug)]
pub(crate) struct Dumps {
    folder: DumpFolder,
    canary: Canary,
    signs: Signs,
    reasons: Reasons,
    guests: Guests,
    /// Exemplar of the longest wait of each VM in the last dump that was made because of this VM.
    exemplars: BTreeMap<Name, Exemplar>,
}

impl Dumps {
    /// Begins to make dumps in this folder. A dump is due after a wait longer than `over_ns`, or if
    /// one of `limits` is exceeded.
    ///
    /// # Errors
    /// If no file can be created in the folder.
    pub(crate) fn begin(folder: &Path, over_ns: u64, limits: &[DumpLimit]) -> Result<Dumps> {
        Ok(Dumps {
            folder: DumpFolder::open(folder)?,
            canary: Canary::new(over_ns),
            signs: Signs::new(limits),
            reasons: Reasons::default(),
            guests: Guests::default(),
            exemplars: BTreeMap::new(),
        })
    }

    /// Returns the reasons for the dump that is due now; `None` if no dump is due.
    pub(crate) fn due<'a>(
        &mut self,
        vms: impl Iterator<Item = &'a VmTotals> + Clone,
    ) -> Option<Due> {
        let now_ns = now_ns();
        if !self.signs.limits().is_empty() {
            let sums = sums(self.signs.limits(), vms.clone(), now_ns);
            self.signs.look(sums);
        }
        let waited = self.canary.look(vms, now_ns);
        let is_due = !waited.is_empty() || self.signs.is_any_new() && self.canary.may_dump(now_ns);
        is_due.then(|| Due {
            waited,
            found: self.signs.take(),
        })
    }

    /// Counts a finished dump for each of its reasons.
    pub(crate) fn count(&mut self, due: &Due) {
        self.reasons.wait += u64::from(!due.waited.is_empty());
        for sign in [Sign::Quota, Sign::Steal, Sign::Pressure] {
            let is_one = due.found.iter().any(|finding| finding.sign == sign);
            *self.reasons.of_sign(sign) += u64::from(is_one);
        }
    }

    /// Counts a dump that was made because of a signal.
    pub(crate) fn count_signal(&mut self) {
        self.reasons.signal += 1;
    }

    /// Checks whether the guest of this VMM may have a dump now. The request counts as a dump even
    /// if the dump fails later.
    ///
    /// # Errors
    /// If the guest may not have a dump now. The error is a text with the reason.
    pub(crate) fn guest_asks(&mut self, vmm_pid: u32) -> Result<(), &'static str> {
        self.guests.ask(vmm_pid, now_ns())
    }

    /// Counts a dump that was made for a guest.
    pub(crate) fn count_guest(&mut self) {
        self.reasons.guest += 1;
    }

    pub(crate) fn reasons(&self) -> Reasons {
        self.reasons
    }

    /// Queues a recording of [`WANTED`] under this name. Returns whether it was queued.
    pub(crate) fn write(&self, name: &str, recording: Vec<u8>) -> bool {
        self.folder.keep(name, recording)
    }

    /// Remembers that this dump was made because of this VM. `length_ns` is the VM's longest wait
    /// in the dump. `culprit` had the CPU for most of this wait.
    pub(crate) fn made_for(&mut self, vm: Name, dump: &str, length_ns: u64, culprit: String) {
        if self.exemplars.len() >= EXEMPLARS {
            self.exemplars.pop_first();
        }
        let exemplar = Exemplar::default();
        let labels = vec![("dump", dump.to_owned()), ("culprit", culprit)];
        exemplar.inc_by(seconds(length_ns), Some(labels), Some(SystemTime::now()));
        self.exemplars.insert(vm, exemplar);
    }

    /// Returns the exemplar of the VM's longest wait in the last dump that was made because of this
    /// VM.
    pub(crate) fn exemplar(&self, vm: &Name) -> Option<&Exemplar> {
        self.exemplars.get(vm)
    }

    pub(crate) fn counts(&self) -> &Counts {
        self.folder.counts()
    }

    /// Returns a handle by which another thread can write into the folder.
    pub(crate) fn shelf(&self) -> Shelf {
        self.folder.shelf()
    }
}

/// Time of the last request of each guest (CLOCK_MONOTONIC in ns), by the process id of its VMM.
#[derive(Debug, Default)]
struct Guests(BTreeMap<u32, u64>);

impl Guests {
    fn ask(&mut self, vmm_pid: u32, now_mono_ns: u64) -> Result<(), &'static str> {
        self.0
            .retain(|_, asked| now_mono_ns < *asked + GUEST_APART_NS);
        if self.0.contains_key(&vmm_pid) {
            return Err("this guest had a dump within the last minute");
        }
        if self
            .0
            .values()
            .any(|asked| now_mono_ns < *asked + GUESTS_APART_NS)
        {
            return Err("another guest had a dump just now: ask again in some seconds");
        }
        self.0.insert(vmm_pid, now_mono_ns);
        Ok(())
    }
}

fn sums<'a>(limits: &[DumpLimit], vms: impl Iterator<Item = &'a VmTotals>, mono_ns: u64) -> Sums {
    let host = Host::here();
    let wants = |sign| limits.iter().any(|limit| limit.sign == sign);
    let of_vm = |vm: &VmTotals| {
        let lost = vm.lost.shares().iter().map(|(_, ns)| ns).sum::<u64>();
        let sums = VmSums {
            throttled: vm.lost.throttled,
            // Time in which vCPUs waited because other tasks had the CPU, or because of a quota.
            waited: vm.lost.preempted + vm.lost.throttled + vm.lost.unsure,
            all: lost + vm.ran_ns + vm.halted_ns + vm.asleep_ns,
        };
        (vm.label.clone(), sums)
    };
    Sums {
        mono_ns,
        vms: vms.map(of_vm).collect(),
        steal: wants(Sign::Steal)
            .then(|| host.cpu_steal_ns())
            .unwrap_or_default(),
        pressure: wants(Sign::Pressure)
            .then(|| host.cpu_pressure_ns())
            .flatten(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_guest_has_one_a_minute_and_all_together_one_in_five_seconds() {
        let mut guests = Guests::default();
        assert!(guests.ask(7, 100 * S).is_ok());
        assert!(guests.ask(7, 101 * S).unwrap_err().contains("minute"));
        assert!(guests.ask(8, 104 * S).unwrap_err().contains("another"));
        assert!(guests.ask(8, 105 * S).is_ok());
        assert!(guests.ask(7, 159 * S).is_err());
        assert!(guests.ask(7, 160 * S).is_ok());
    }
}
