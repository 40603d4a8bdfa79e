//! Dumps that nobody asked for by name: those that the canary has made, and those of a signal.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use anyhow::Result;
use jiff::Timestamp;
use prometheus_client::metrics::exemplar::CounterWithExemplar;
use vmnoise_events::Name;

use crate::canary::Canary;
use crate::clock::{now_ns, seconds};
use crate::dump_folder::{self, Counts, DumpFolder, Shelf};
use crate::flight::Wanted;
use crate::ledger::VmTotals;

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

/// Where they go, and when one is due.
#[derive(Debug)]
pub(crate) struct Dumps {
    folder: DumpFolder,
    canary: Canary,
    /// By VM: its longest wait in the last dump that was made for its sake.
    exemplars: BTreeMap<Name, Exemplar>,
}

impl Dumps {
    /// Into this folder, and when a vCPU waited for longer than this.
    ///
    /// # Errors
    /// If the folder cannot be written to.
    pub(crate) fn begin(folder: &Path, over_ns: u64) -> Result<Dumps> {
        Ok(Dumps {
            folder: DumpFolder::open(folder)?,
            canary: Canary::new(over_ns),
            exemplars: BTreeMap::new(),
        })
    }

    /// The VMs for whose sake one is due now.
    pub(crate) fn due<'a>(&mut self, vms: impl Iterator<Item = &'a VmTotals>) -> Vec<Name> {
        self.canary.look(vms, now_ns())
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
