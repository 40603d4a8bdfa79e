//! Dumps that nobody asked for by name: those that the canary has made, those of a signal, and those that guests asked for.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use anyhow::Result;
use jiff::Timestamp;
use prometheus_client::metrics::exemplar::CounterWithExemplar;
use vmnoise_events::Name;
use vmnoise_serve_arguments::{Limit, Sign};

use crate::canary::Canary;
use crate::clock::{now_ns, seconds};
use crate::dump_folder::{self, Counts, DumpFolder, Kind, Shelf};
use crate::flight::Wanted;
use crate::ledger::VmTotals;
use crate::proc_sums;
use crate::signs::{Finding, Signs, Sums, VmSums};

/// What a dump holds: a minute passes between two, and this goes back beyond the one before.
pub(crate) const WANTED: Wanted = Wanted {
    last_ns: Some(90_000_000_000),
    vm: None,
    vmm_pid: None,
};
/// From one dump for a guest to the next: for the same one, for what happens meanwhile is in that, and for any, since
/// what they cost is on the host's account.
const GUEST_APART_NS: u64 = 60_000_000_000;
const GUESTS_APART_NS: u64 = 5_000_000_000;
/// VMs whose dump is remembered.
const EXEMPLARS: usize = 1024;

/// A wait that has a dump: the library makes exemplars for its own counters alone.
pub(crate) type Exemplar = CounterWithExemplar<Vec<(&'static str, String)>, f64, AtomicU64>;

/// How one of this moment is called.
pub(crate) fn name() -> String {
    dump_folder::name(Kind::Late, Timestamp::now())
}

/// The same of one that a guest has asked for.
pub(crate) fn name_for_guest() -> String {
    dump_folder::name(Kind::Asked, Timestamp::now())
}

/// Why one is due now.
#[derive(Debug, Default)]
pub(crate) struct Due {
    /// VMs that waited for too long.
    pub(crate) waited: Vec<Name>,
    pub(crate) found: Vec<Finding>,
}

/// What dumps were made for: one has several reasons where these came at the same time.
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
    /// Each by its name.
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

/// Where they go, and when one is due.
#[derive(Debug)]
pub(crate) struct Dumps {
    folder: DumpFolder,
    canary: Canary,
    signs: Signs,
    reasons: Reasons,
    guests: Guests,
    /// By VM: its longest wait in the last dump that was made for its sake.
    exemplars: BTreeMap<Name, Exemplar>,
}

impl Dumps {
    /// Into this folder, when a vCPU waited for longer than this, or something else was over its limit.
    ///
    /// # Errors
    /// If the folder cannot be written to.
    pub(crate) fn begin(folder: &Path, over_ns: u64, limits: &[Limit]) -> Result<Dumps> {
        Ok(Dumps {
            folder: DumpFolder::open(folder)?,
            canary: Canary::new(over_ns),
            signs: Signs::new(limits),
            reasons: Reasons::default(),
            guests: Guests::default(),
            exemplars: BTreeMap::new(),
        })
    }

    /// Why one is due now, if one is.
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

    /// One was made for this.
    pub(crate) fn count(&mut self, due: &Due) {
        self.reasons.wait += u64::from(!due.waited.is_empty());
        for sign in [Sign::Quota, Sign::Steal, Sign::Pressure] {
            let is_one = due.found.iter().any(|finding| finding.sign == sign);
            *self.reasons.of_sign(sign) += u64::from(is_one);
        }
    }

    /// One was made for a signal.
    pub(crate) fn count_signal(&mut self) {
        self.reasons.signal += 1;
    }

    /// Whether the guest of this VMM may have one made now. It has been tried then, whatever comes of it.
    ///
    /// # Errors
    /// Says why not.
    pub(crate) fn guest_asks(&mut self, vmm_pid: u32) -> Result<(), &'static str> {
        self.guests.ask(vmm_pid, now_ns())
    }

    /// One was made for a guest that asked.
    pub(crate) fn count_guest(&mut self) {
        self.reasons.guest += 1;
    }

    pub(crate) fn reasons(&self) -> Reasons {
        self.reasons
    }

    /// Has a recording of [`WANTED`] written under this name; whether it is, for too many may wait.
    pub(crate) fn write(&self, name: &str, recording: Vec<u8>) -> bool {
        self.folder.keep(name, recording)
    }

    /// A dump was made for the sake of this VM, whose longest wait in it was so long, and was his fault.
    pub(crate) fn made_for(&mut self, vm: Name, dump: &str, length_ns: u64, culprit: String) {
        if self.exemplars.len() >= EXEMPLARS {
            self.exemplars.pop_first();
        }
        let exemplar = Exemplar::default();
        let labels = vec![("dump", dump.to_owned()), ("culprit", culprit)];
        exemplar.inc_by(seconds(length_ns), Some(labels), Some(SystemTime::now()));
        self.exemplars.insert(vm, exemplar);
    }

    /// The longest wait of a VM in the last dump that was made for its sake.
    pub(crate) fn exemplar(&self, vm: &Name) -> Option<&Exemplar> {
        self.exemplars.get(vm)
    }

    pub(crate) fn counts(&self) -> &Counts {
        self.folder.counts()
    }

    /// For whoever writes there too.
    pub(crate) fn shelf(&self) -> Shelf {
        self.folder.shelf()
    }
}

/// Guests that had a dump made lately: when, by the process of their VMM; CLOCK_MONOTONIC in ns.
#[derive(Debug, Default)]
struct Guests(BTreeMap<u32, u64>);

impl Guests {
    fn ask(&mut self, vmm_pid: u32, now_mono_ns: u64) -> Result<(), &'static str> {
        self.0
            .retain(|_, asked| now_mono_ns < *asked + GUEST_APART_NS);
        if self.0.contains_key(&vmm_pid) {
            return Err("it had one within the last minute");
        }
        if self
            .0
            .values()
            .any(|asked| now_mono_ns < *asked + GUESTS_APART_NS)
        {
            return Err("another guest had one just now: ask again in some seconds");
        }
        self.0.insert(vmm_pid, now_mono_ns);
        Ok(())
    }
}

fn sums<'a>(limits: &[Limit], vms: impl Iterator<Item = &'a VmTotals>, mono_ns: u64) -> Sums {
    let wants = |sign| limits.iter().any(|limit| limit.sign == sign);
    let of_vm = |vm: &VmTotals| {
        let lost = vm.lost.shares().iter().map(|(_, ns)| ns).sum::<u64>();
        let sums = VmSums {
            throttled: vm.lost.throttled,
            // For a CPU that others had, or a quota kept from it.
            waited: vm.lost.preempted + vm.lost.throttled + vm.lost.unsure,
            all: lost + vm.ran_ns + vm.halted_ns + vm.asleep_ns,
        };
        (vm.label.clone(), sums)
    };
    Sums {
        mono_ns,
        vms: vms.map(of_vm).collect(),
        steal: wants(Sign::Steal)
            .then(proc_sums::steal_ns)
            .unwrap_or_default(),
        pressure: wants(Sign::Pressure).then(proc_sums::pressure_ns).flatten(),
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
