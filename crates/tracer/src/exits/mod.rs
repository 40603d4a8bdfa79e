//! Counts every exit of every vCPU of this host in the kernel; user space only reads. Exits are
//! also reported one by one if that is wanted.

mod clocks;
mod decode;
mod guest_clocks;
mod load;
mod reasons;
mod renewal;
mod roll;
mod statuses;
mod stream;
mod table;
#[cfg(test)]
mod tests;
mod totals;
mod vm_names;
mod wire;

use libbpf_rs::{Link, Object};
use vmnoise_events::{Event, Loss, LossKind, ProbeStatus, Vcpu, VcpuId, VcpuTotals, Witnesses};

use crate::accounting;
use crate::btf::KernelBtf;
use crate::error::{LoadError, TraceError};
use crate::maps::Maps;
use crate::probes::{Group, Kernel};
use crate::tracer::no_btf;
use crate::watched::Watched;
use vmnoise_host::{Host, VmProcess};

pub use clocks::ClockLook;
pub use decode::ExitDecoder;
pub use guest_clocks::GuestClocks;
use load::{Loaded, Plan, TSC_WRITES};
pub(crate) use reasons::ReasonSource;
use renewal::Before;
use roll::Roll;
use stream::Stream;
use table::Table;
use wire::{WireReason, WireVcpu};

/// Number of reasons with their own sums for each vCPU: EXITS_REASONS of `bpf/exits.h`.
const REASONS: usize = 40;

/// Number of times that a vCPU's counts are read again until they stand still.
const READS: usize = 4;

/// The records that are reported one by one, in addition to the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streaming {
    /// Nothing: counting alone costs least.
    Off,
    /// Exits, what kept the vCPUs' threads from their guests, and the host's work there.
    Exits {
        /// Least noise of an exit that is reported, in ns. Noise is the exit's length without the
        /// guest's own halts.
        threshold_ns: u64,
    },
    /// Every exit, of one VM at a time and for one time window after another
    /// ([`ExitTracer::follow`]). The programs time themselves.
    Stretches,
}

/// The programs that count exits. They run while this value lives.
#[derive(Debug)]
pub struct ExitTracer {
    // Dropped first, so no program runs while the rest is dropped.
    links: Vec<Link>,
    stream: Option<Stream>,
    object: Object,
    plan: Plan,
    reasons: ReasonSource,
    roll: Roll,
    watched: Watched,
    /// The process whose vCPUs are counted; 0: all processes.
    followed: u32,
    before: Before,
}

impl ExitTracer {
    /// Loads the programs, with room for this many vCPUs at a time. Nothing runs yet.
    ///
    /// # Errors
    /// [`LoadError::Refused`] if this machine or the rights of this process do not allow it,
    /// [`LoadError::Broken`] if they allow it and it fails.
    pub fn load(vcpus: u32, streaming: Streaming) -> Result<ExitTracer, LoadError> {
        let btf = KernelBtf::read().map_err(|error| no_btf(&error))?;
        Self::load_on(&btf, vcpus, streaming)
    }

    /// Does the same as `load` with this description of the kernel.
    fn load_on(btf: &KernelBtf, vcpus: u32, streaming: Streaming) -> Result<ExitTracer, LoadError> {
        let host = Host::here();
        let reasons = ReasonSource::of(host.kvm_module().as_deref(), btf);
        let plan = Plan {
            vcpus,
            streaming,
            kvm_run_only: reasons == ReasonSource::KvmRun,
            preempt_rt: host.is_preempt_rt(),
        };
        let Loaded {
            object,
            absent,
            hooked,
        } = plan.load(btf)?;
        let stream = match streaming {
            Streaming::Off => None,
            Streaming::Exits { .. } | Streaming::Stretches => Some(Stream::of(&object)?),
        };
        let table = Table::new(&object, vcpus);
        let table = table.map_err(|error| LoadError::Broken(format!("the vCPUs: {error}")))?;
        // The source of reasons has its own status. On PREEMPT_RT a softirq counts up to the switch
        // that preempts it.
        let kernel = Kernel::of(&host, btf, &hooked, plan.kvm_run_only);
        Ok(ExitTracer {
            links: Vec::new(),
            stream,
            object,
            plan,
            reasons,
            roll: Roll::new(table, !plan.kvm_run_only),
            watched: Watched::new(Plan::groups(), absent, &kernel),
            followed: 0,
            before: Before::default(),
        })
    }

    /// Prepares places for threads that are already vCPUs, from all VMs of this host. Otherwise a
    /// vCPU that stays in its guest would be found late. Later vCPUs are found when they come. Call
    /// this function before [`ExitTracer::attach`].
    ///
    /// # Errors
    /// If the maps cannot be written.
    pub fn expect(&mut self, vms: Vec<VmProcess>) -> std::io::Result<()> {
        for vm in &vms {
            for thread in &vm.vcpus {
                let vcpu = WireVcpu {
                    tid: thread.tid,
                    tgid: vm.pid,
                    id: thread.id,
                    ..WireVcpu::default()
                };
                self.roll.table.seat(&self.object, &vcpu)?;
            }
        }
        self.roll.gone(&vms);
        self.roll.learn(&[], vms);
        Ok(())
    }

    /// Looks for new vCPUs. Returns the processes of the vCPUs that have come since the last call.
    /// Look up the VMs of these processes while they live, and call [`ExitTracer::learn`].
    ///
    /// # Errors
    /// If the maps cannot be read.
    pub fn newcomers(&mut self) -> std::io::Result<Vec<u32>> {
        self.roll.look(&self.object)
    }

    /// Stores the names of the given VMs and their vCPUs. `looked_at` are the processes of new
    /// vCPUs that were looked up. Names are kept after the vCPUs end. A vCPU that has ended
    /// meanwhile also gets its name.
    pub fn learn(&mut self, looked_at: &[u32], vms: Vec<VmProcess>) {
        self.roll.learn(looked_at, vms);
    }

    /// Frees the places of vCPUs whose VM is gone, although their thread lives. `vms` are all VMs
    /// of this host: a VM is gone if it was there at the last call, and is not there now.
    ///
    /// # Errors
    /// If the maps cannot be read or written.
    pub fn forget_gone(&mut self, vms: &[VmProcess]) -> std::io::Result<()> {
        self.roll.forget_gone(&self.object, vms)
    }

    /// Attaches all groups that can be attached. [`ExitTracer::exit_statuses`] reports the others.
    /// Nothing is counted before [`ExitTracer::count`].
    ///
    /// # Errors
    /// If exits cannot be reported.
    pub fn attach(&mut self) -> Result<(), TraceError> {
        let links = self.watched.attach(&self.object);
        if let Some((_, why)) = self.plan.lacks(self.watched.absent()) {
            return Err(TraceError::NothingAttached(why.clone()));
        }
        self.links = links;
        Ok(())
    }

    /// Begins to count. All programs are attached, so each begin is counted only if the program
    /// that sees its end runs.
    ///
    /// # Errors
    /// If the maps cannot be written.
    pub fn count(&mut self) -> std::io::Result<()> {
        let controls = wire::controls(true, self.followed);
        self.object.set(".data", 0, &controls)
    }

    /// Stops counting. Counts that are read afterwards are final.
    ///
    /// # Errors
    /// If the maps cannot be written.
    pub fn detach(&mut self) -> std::io::Result<()> {
        // Begins stop first, because programs go one by one.
        let controls = wire::controls(false, self.followed);
        self.object.set(".data", 0, &controls)?;
        self.links.clear();
        Ok(())
    }

    /// Returns the vCPUs that are present, in the order in which they were first seen.
    /// [`ExitTracer::drain`] reported those that have ended. The counts of one vCPU are from one
    /// instant, unless it exits all the time.
    ///
    /// # Errors
    /// If the maps cannot be read.
    pub fn read(&self) -> std::io::Result<Vec<(Vcpu, VcpuTotals)>> {
        let present = self.roll.table.present().into_iter();
        present
            .map(|(id, place)| {
                // Its map entries are read one after the other while the vCPU runs.
                let mut last = self.read_vcpu(id, place)?;
                for _ in 0..READS {
                    let again = self.read_vcpu(id, place)?;
                    let stands_still = again == last;
                    last = again;
                    if stands_still {
                        break;
                    }
                }
                Ok(last)
            })
            .collect()
    }

    fn read_vcpu(&self, id: VcpuId, place: u32) -> std::io::Result<(Vcpu, VcpuTotals)> {
        let globals = wire::globals(&self.object)?;
        let vcpu = self.object.value::<WireVcpu>("vcpus", place)?;
        let vcpu = vcpu.ok_or_else(|| std::io::Error::other("a vCPU beyond the table"))?;
        let first = place * REASONS as u32;
        let reasons: Vec<WireReason> = (first..first + globals.reasons_known.min(REASONS as u32))
            .map_while(|key| self.object.value("reasons", key).transpose())
            .collect::<Result<_, _>>()?;
        Ok((
            self.roll.vcpu(id, &vcpu),
            totals::vcpu(id, &vcpu, &reasons, &globals, self.plan.kvm_run_only),
        ))
    }

    /// Returns whether this KVM never reports that a guest was left (kvm_pvm). An exit is then the
    /// time between two KVM_RUN, and exits that the kernel handled alone are unknown.
    pub fn kvm_run_only(&self) -> bool {
        self.plan.kvm_run_only
    }

    /// Returns which events this run can see, after its programs are attached.
    pub fn witnesses(&self) -> Witnesses {
        self.watched.witnesses()
    }

    /// Returns how the host's work on vCPUs is observed, by group, and what is missing. Exits have
    /// their own statuses.
    fn probe_statuses(&self) -> Vec<ProbeStatus> {
        let of_kvm = |group: Group| matches!(group, Group::KvmRun | Group::KvmExit);
        let probe_statuses = self.watched.probe_statuses();
        probe_statuses
            .filter(|(group, _)| !of_kvm(*group))
            .map(|(_, probe_status)| probe_status)
            .collect()
    }

    /// Reports each vCPU that has come since the last call, all records, and the totals of each
    /// vCPU that has ended. Each source and each vCPU is defined before its first use. An exit
    /// comes after the intervals and activities that make it up, except for interrupts in progress
    /// on a CPU that it left. Call it a few times a second.
    ///
    /// # Errors
    /// If the ring buffer or the maps cannot be read or written.
    pub fn drain(&mut self, sink: &mut dyn FnMut(Event)) -> Result<(), TraceError> {
        // All records of a vCPU that has ended by now are in the ring.
        let roll = &mut self.roll;
        roll.define(&self.object, sink).map_err(TraceError::Ring)?;
        let ended = roll.table.take_ended();
        if let Some(stream) = &mut self.stream {
            stream.drain(&self.object, roll, sink)?;
        }
        for (id, place) in ended {
            self.report_last(id, place, sink)
                .map_err(TraceError::Ring)?;
        }
        Ok(())
    }

    /// Reports the totals of a vCPU that has ended, and frees its place.
    fn report_last(
        &mut self,
        id: VcpuId,
        place: u32,
        sink: &mut dyn FnMut(Event),
    ) -> std::io::Result<()> {
        let (vcpu, totals) = self.read_vcpu(id, place)?;
        sink(Event::Vcpu(vcpu));
        sink(Event::VcpuTotals(totals));
        self.roll.bury(&self.object, id, place)
    }

    /// Returns whether [`ExitTracer::report_clocks`] reports any clocks: it needs the stream.
    pub fn reports_clocks(&self) -> bool {
        self.stream.is_some()
    }

    /// Reports the guests' clocks that are new in this reading of KVM's clocks, or have changed,
    /// for all vCPUs that are present. Each vCPU is defined before.
    ///
    /// # Errors
    /// If the maps cannot be read.
    pub fn report_clocks(
        &mut self,
        look: &ClockLook,
        sink: &mut dyn FnMut(Event),
    ) -> Result<(), TraceError> {
        if self.stream.is_none() {
            return Ok(());
        }
        // Writes before the reading are in the ring by now.
        self.drain(sink)?;
        if let Some(stream) = &mut self.stream {
            stream.report_clocks(look, &self.roll.looked_up(), sink);
        }
        Ok(())
    }

    /// Returns whether the times of changes of guests' clocks are reported.
    pub fn dates_clocks(&self) -> bool {
        let mut programs = self.object.progs();
        programs.any(|program| program.name() == TSC_WRITES && program.autoload())
    }

    /// Returns the losses since the start, by kind. A count of 0 is known to be 0. The counts
    /// themselves lose only missed events and vCPUs without room.
    ///
    /// # Errors
    /// If the maps cannot be read.
    pub fn losses(&self) -> std::io::Result<Vec<Loss>> {
        let globals = wire::globals(&self.object)?;
        let undecodable = self.stream.as_ref().map_or(0, Stream::undecodable);
        let counts = [
            (LossKind::RingFull, globals.records_lost),
            (
                LossKind::Recursion,
                accounting::recursion_misses(&self.object)?.saturating_sub(self.before.missed),
            ),
            (LossKind::Unpaired, globals.unpaired),
            (LossKind::Undecodable, undecodable),
            (LossKind::VcpusFull, globals.vcpus_lost),
        ];
        Ok(counts.map(|(kind, count)| Loss { kind, count }).to_vec())
    }
}
