//! Reuse of loaded programs: they stay loaded, and are attached for one VM and one time window
//! after another. Counts begin at 0 in each window.

use std::collections::BTreeSet;

use libbpf_rs::{MapCore, Object};

use super::roll::Roll;
use super::table::Table;
use super::wire::{self, WireCpu};
use super::{ExitTracer, REASONS};
use crate::error::TraceError;
use crate::maps::Maps;
use vmnoise_host::VmProcess;

/// One of this many program runs is timed: EXITS_TIMED_RUN of `bpf/exits.h`.
const TIMED_RUN: u64 = 251;

/// Counts from before the current time window. They are subtracted from the results.
#[derive(Debug, Default)]
pub(super) struct Before {
    /// Number of events that the programs missed.
    pub(super) missed: u64,
    /// Total length of the timed runs, in ns.
    timed_ns: u64,
}

impl ExitTracer {
    /// Discards all reports and counts, and counts only the vCPUs of the given VM from now on. Call
    /// this function some time after [`ExitTracer::detach`], when no program is attached or runs
    /// any more.
    ///
    /// # Errors
    /// If the ring buffer or the maps cannot be read or written.
    pub fn follow(&mut self, vm: VmProcess) -> Result<(), TraceError> {
        if let Some(stream) = &mut self.stream {
            stream.renew()?;
        }
        self.renew(vm.pid).map_err(TraceError::Ring)?;
        self.expect(vec![vm]).map_err(TraceError::Ring)
    }

    /// Returns the cost in ns of the programs so far, on all CPUs. The cost is 0 if the programs do
    /// not time themselves. It includes one reading of the clock per run. Each timed run stands for
    /// `TIMED_RUN` runs.
    ///
    /// # Errors
    /// If the maps cannot be read.
    pub fn probe_ns(&self) -> std::io::Result<u64> {
        Ok((self.before.timed_ns + timed_ns(&self.programs)?) * TIMED_RUN)
    }

    fn renew(&mut self, followed: u32) -> std::io::Result<()> {
        let object: &Object = &self.programs;
        let before = Before {
            missed: self.programs.missed()?,
            timed_ns: self.before.timed_ns + timed_ns(object)?,
        };
        // Free slots have not been used since the last renewal, so only the other slots are
        // cleared.
        let mut used: BTreeSet<u32> = (1..=self.plan.vcpus).collect();
        while let Some(place) = object.pop("free_places")? {
            used.remove(&place);
        }
        for queue in ["newcomers", "ended"] {
            while object.pop(queue)?.is_some() {}
        }
        for place in used {
            let first = place * REASONS as u32;
            clear(object, "vcpus", [place])?;
            clear(object, "reasons", first..first + REASONS as u32)?;
        }
        clear(
            object,
            "exit_cpus",
            0..object.map("exit_cpus").max_entries(),
        )?;
        clear(object, ".bss", 0..1)?;
        let threads = object.map("threads");
        for thread in threads.keys() {
            threads.delete(&thread).map_err(std::io::Error::other)?;
        }
        object.set(".data", 0, &wire::controls(false, followed))?;
        let table = Table::new(object, self.plan.vcpus)?;
        self.roll = Roll::new(table, !self.plan.kvm_run_only);
        (self.followed, self.before) = (followed, before);
        Ok(())
    }
}

fn clear(object: &Object, map: &str, keys: impl IntoIterator<Item = u32>) -> std::io::Result<()> {
    let nothing = vec![0; object.map(map).value_size() as usize];
    keys.into_iter()
        .try_for_each(|key| object.set(map, key, &nothing))
}

fn timed_ns(object: &Object) -> std::io::Result<u64> {
    let mut sum = 0;
    for cpu in 0..object.map("exit_cpus").max_entries() {
        let slot = object.value::<WireCpu>("exit_cpus", cpu)?;
        sum += slot.map_or(0, |slot| slot.timed_ns);
    }
    Ok(sum)
}
