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
use crate::dump_folder::{self, Counts, DumpFolder, Shelf};
use crate::flight::Wanted;
use crate::ledger::VmTotals;
use crate::proc_sums;
use crate::signs::{Finding, Signs, Sums, VmSums};

/// What a dump holds: a minute passes between two, and this goes back beyond the one before.
pub(crate) const WANTED: Wanted = Wanted {
    last_ns: Some(90_000_000_000),
    vm: None,
};
/// VMs whose dump is remembered.
const EXEMPLARS: usize = 1024;

/// A wait that has a dump: the library makes exemplars for its own counters alone.
pub(crate) type Exemplar = CounterWithExemplar<Vec<(&'static str, String)>, f64, AtomicU64>;

/// How one of this moment is called.
pub(crate) fn name() -> String {
    dump_folder::name(Timestamp::now())
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
        let mut signs: Vec<Sign> = due.found.iter().map(|finding| finding.sign).collect();
        signs.dedup();
        for sign in signs {
            *self.reasons.of_sign(sign) += 1;
        }
    }

    /// One was made for a signal.
    pub(crate) fn count_signal(&mut self) {
        self.reasons.signal += 1;
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

fn sums<'a>(limits: &[Limit], vms: impl Iterator<Item = &'a VmTotals>, mono_ns: u64) -> Sums {
    let wants = |sign| limits.iter().any(|limit| limit.sign == sign);
    let of_vm = |vm: &VmTotals| {
        let lost = vm.lost.shares().iter().map(|(_, ns)| ns).sum::<u64>();
        let sums = VmSums {
            throttled: vm.lost.throttled,
            // What was not seen was not lost, as far as is known.
            lost: lost - vm.lost.unseen,
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
