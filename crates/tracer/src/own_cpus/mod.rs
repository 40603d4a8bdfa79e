//! Counts in the kernel what this machine's own CPUs lose to the hypervisor and to interrupts, if
//! this machine is a guest. Also counts how long tasks waited for a CPU. The programs run for days.
//! No event leaves the kernel, and user space reads mapped memory.

mod books;
#[cfg(test)]
mod tests;
mod wire;

use std::mem::offset_of;
use std::sync::atomic::Ordering::{Relaxed, Release};

pub use books::{OwnCpuBooks, TakenOfKind};
pub(crate) use wire::settings;
use wire::{TIMED_RUN, UNREAD, WireCpu};

use crate::btf::KernelBtf;
use crate::error::{LoadError, TraceError};
use crate::mapped_array::MappedArray;
use crate::maps::Maps;
use crate::object::{ObjectPlan, Programs};
use crate::plain;
use crate::probes::Group;
use crate::steal::{StealClock, Variable};
use vmnoise_host::Host;

/// Groups of events that this module needs.
const GROUPS: [Group; 3] = [Group::Irq, Group::Softirq, Group::Sched];

/// The programs that count. They run from [`OwnCpus::attach`] until this value is dropped, except
/// in pauses.
#[derive(Debug)]
pub struct OwnCpus {
    // This field is dropped first, so that no program runs while the other fields are dropped.
    programs: Programs,
    cpus: MappedArray<WireCpu>,
    /// CPUs that were online when the programs were loaded, each with the address of its steal
    /// clock.
    clocks: Vec<(u32, u64)>,
    tells_waits: bool,
}

impl OwnCpus {
    /// Loads the programs. Nothing runs yet. Returns `None` if this machine is not a guest, or has
    /// no steal clock that can be read at any time.
    ///
    /// # Errors
    /// [`LoadError::Refused`] if this machine does not allow BPF, or this process has no right to
    /// use it. [`LoadError::Broken`] if BPF is allowed, but the programs do not load.
    pub fn load() -> Result<Option<OwnCpus>, LoadError> {
        let host = Host::here();
        let Some(hypervisor) = host.hypervisor() else {
            return Ok(None);
        };
        let btf = KernelBtf::read()?;
        let Some(variable) = Variable::of(btf.minus_run_queue, &hypervisor) else {
            return Ok(None);
        };
        let missing = |group: Group| Some((group, group.missing(&btf)?));
        if let Some((group, why)) = GROUPS.into_iter().find_map(missing) {
            return Err(LoadError::Refused {
                why: format!("{why}: time taken from this machine cannot be measured"),
                remedy: group.remedy().to_owned(),
            });
        }
        let broken = |error: std::io::Error| LoadError::Broken(format!("the CPUs: {error}"));
        let online = host.online_cpus().map_err(broken)?;
        let programs = load(&btf, variable)?;
        let cpus: MappedArray<WireCpu> = programs.mapped("cpus").map_err(broken)?;
        let run_queue = |cpu| {
            let word = cpus.u64(cpu, offset_of!(WireCpu, run_queue))?;
            Some(word.load(Relaxed)).filter(|address| *address != 0)
        };
        let clock = StealClock::find(&programs, Some(variable), &run_queue, &online);
        let Some(clocks) = clock.addresses(&run_queue, &online) else {
            return Ok(None);
        };
        Ok(Some(OwnCpus {
            programs,
            cpus,
            clocks,
            tells_waits: btf.sched_info,
        }))
    }

    /// Attaches all programs, which count from now on.
    ///
    /// # Errors
    /// If a program cannot be attached, because begins would then have no ends.
    pub fn attach(&mut self) -> Result<(), TraceError> {
        self.programs.attach()?;
        for &(cpu, clock) in &self.clocks {
            // Steal time before now is not counted. Interrupts that were in progress during the
            // last attachment are over.
            self.set(cpu, offset_of!(WireCpu, steal_until), UNREAD);
            self.set(cpu, offset_of!(WireCpu, softirq_start), 0);
            self.set_half(cpu, offset_of!(WireCpu, irq_depth), 0);
            self.set_half(cpu, offset_of!(WireCpu, irq_seen), 0);
            self.set(cpu, offset_of!(WireCpu, steal_clock), clock);
        }
        Ok(())
    }

    /// Detaches the programs, so that they cost nothing. Losses are not counted until the programs
    /// are attached again.
    pub fn pause(&mut self) {
        for &(cpu, _) in &self.clocks {
            self.set(cpu, offset_of!(WireCpu, steal_clock), 0);
        }
        self.programs.detach();
    }

    fn set(&self, cpu: u32, offset: usize, value: u64) {
        if let Some(word) = self.cpus.u64(cpu, offset) {
            word.store(value, Release);
        }
    }

    fn set_half(&self, cpu: u32, offset: usize, value: u32) {
        if let Some(word) = self.cpus.u32(cpu, offset) {
            word.store(value, Release);
        }
    }

    /// Returns the CPUs whose losses are counted: those that were online when the programs were
    /// loaded.
    pub fn cpus(&self) -> impl Iterator<Item = u32> {
        self.clocks.iter().map(|(cpu, _)| *cpu)
    }

    /// Returns the losses of a CPU so far; `None` if there is no such CPU.
    pub fn books(&self, cpu: u32) -> Option<OwnCpuBooks> {
        let words = self.cpus.words(cpu)?;
        let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
        Some(OwnCpuBooks::read(&plain::read(&bytes)?, self.tells_waits))
    }

    /// Returns how many events the BPF programs missed because a program was already running. The
    /// result also includes interrupts with only a begin or only an end.
    ///
    /// # Errors
    /// If the kernel does not report it.
    pub fn missed(&self) -> std::io::Result<u64> {
        let unpaired = self.cpus.sum(offset_of!(WireCpu, unpaired));
        Ok(self.programs.missed()? + unpaired)
    }

    /// Returns the cost of the programs so far, on all CPUs, in ns. One run in `TIMED_RUN` is
    /// timed, and stands for all runs.
    pub fn probe_ns(&self) -> u64 {
        self.cpus.sum(offset_of!(WireCpu, timed_ns)) * TIMED_RUN
    }
}

fn load(btf: &KernelBtf, variable: Variable) -> Result<Programs, LoadError> {
    ObjectPlan {
        name: "vmnoise_own",
        compiled: wire::OBJECT,
        reads_kvm: false,
        wants: &|name, probe| probe.is_none_or(|probe| probe.fits(name, btf)),
        entries: &|map, cpus| (map == "cpus").then_some(cpus),
        settings: &settings(variable.is_xen()),
    }
    .load()
}
