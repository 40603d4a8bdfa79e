//! Dumps that nobody asked for by name: those that the canary has made, and those of a signal.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use anyhow::Result;
use jiff::Timestamp;
use prometheus_client::metrics::exemplar::CounterWithExemplar;
use vmnoise_events::Name;

use crate::canary::Canary;
use crate::clock::{now_ns, seconds};
use crate::dump_folder::{self, Counts, DumpFolder};
use crate::flight::Wanted;
use crate::say::say;
use crate::watch::Watch;

/// What a dump goes back, in ns: the look that finds a wait comes within a second of its end.
const LAST_NS: u64 = 60_000_000_000;

/// A wait that has a dump: the library makes exemplars for its own counters alone.
pub(crate) type Exemplar = CounterWithExemplar<Vec<(&'static str, String)>, f64, AtomicU64>;

/// Where they go, and when one is due.
#[derive(Debug)]
pub(crate) struct Dumps {
    folder: DumpFolder,
    counts: Arc<Counts>,
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
        let folder = DumpFolder::open(folder)?;
        Ok(Dumps {
            counts: folder.counts(),
            folder,
            canary: Canary::new(over_ns),
            exemplars: BTreeMap::new(),
        })
    }

    /// Makes one if it is due.
    pub(crate) fn look(&mut self, watch: &Watch) {
        let hit = self.canary.look(watch.present(), now_ns());
        if hit.is_empty() {
            return;
        }
        let Some(dump) = self.make(watch) else {
            return;
        };
        self.exemplars
            .retain(|vm, _| watch.vms().any(|known| known.label == *vm));
        for vm in hit {
            let Some((length_ns, culprit)) = watch.longest_wait(&vm, LAST_NS) else {
                continue;
            };
            let exemplar = Exemplar::default();
            let labels = vec![("dump", dump.clone()), ("culprit", culprit)];
            exemplar.inc_by(seconds(length_ns), Some(labels), Some(SystemTime::now()));
            self.exemplars.insert(vm, exemplar);
        }
    }

    /// Makes one, and returns how it is called.
    pub(crate) fn make(&mut self, watch: &Watch) -> Option<String> {
        let wanted = Wanted {
            last_ns: Some(LAST_NS),
            vm: None,
        };
        match watch.recording(&wanted) {
            Ok(recording) => {
                let name = dump_folder::name(Timestamp::now());
                self.folder.keep(&name, recording);
                Some(name)
            }
            Err(error) => {
                say(&format!("a dump could not be made: {error:#}"));
                None
            }
        }
    }

    /// The longest wait of a VM in the last dump that was made for its sake.
    pub(crate) fn exemplar(&self, vm: &Name) -> Option<&Exemplar> {
        self.exemplars.get(vm)
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }
}
