//! Counts every exit of every vCPU of this host, in the kernel; user space only reads. What
//! is asked for is reported one by one as well.

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
use vmnoise_host::{Host, Vm};

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

/// Reasons kept apart for each vCPU: EXITS_REASONS of `bpf/exits.h`.
const REASONS: usize = 40;

/// How often a vCPU's counts are read again until they stand still.
const READS: usize = 4;

/// What is reported one by one, beside what is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streaming {
    /// Nothing: counting costs least.
    Off,
    /// Exits, what kept their vCPUs' threads from their guests, and what the host did there.
    Exits {
        /// The least noise of an exit that is reported, in nanoseconds: its length without the
        /// guest's own halts.
        threshold_ns: u64,
    },
    /// Every exit, of one VM at a time and for a stretch of time ([`ExitTracer::follow`]). The programs time
    /// themselves.
    Stretches,
}

/// The programs that count exits. They run for as long as this is held.
#[derive(Debug)]
pub struct ExitTracer {
    // Dropped first: nothing runs any more while the rest goes.
    links: Vec<Link>,
    stream: Option<Stream>,
    object: Object,
    plan: Plan,
    reasons: ReasonSource,
    roll: Roll,
    watched: Watched,
    /// The process whose vCPUs are counted; 0 is all.
    followed: u32,
    before: Before,
}

impl ExitTracer {
    /// Loads the programs, with room for this many vCPUs at a time; nothing runs yet.
    ///
    /// # Errors
    /// [`LoadError::Refused`] where this machine or these rights do not allow it,
    /// [`LoadError::Broken`] where they do and it fails.
    pub fn load(vcpus: u32, streaming: Streaming) -> Result<ExitTracer, LoadError> {
        let btf = KernelBtf::read().map_err(|error| no_btf(&error))?;
        Self::load_on(&btf, vcpus, streaming)
    }

    /// As `load`, as if the kernel were described like this.
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
        // Where reasons are read has a status of its own, and on PREEMPT_RT a soft interrupt counts up
        // to the switch that preempts it.
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

    /// Given all VMs of this host, names threads that are vCPUs already: one that stays in its guest would be seen
    /// late. Others are found as they come. Before [`ExitTracer::attach`].
    ///
    /// # Errors
    /// If the maps cannot be written.
    pub fn expect(&mut self, vms: Vec<Vm>) -> std::io::Result<()> {
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

    /// Looks for vCPUs that have come, and reports the processes of those that have since the
    /// last call: their VMs had better be looked at while they live, and learned.
    ///
    /// # Errors
    /// If the maps cannot be read.
    pub fn newcomers(&mut self) -> std::io::Result<Vec<u32>> {
        self.roll.look(&self.object)
    }

    /// Remembers what these VMs and their vCPUs are called, beyond their end: whatever could be
    /// found of newcomers' processes that were looked at. A vCPU that has ended since is
    /// named as well.
    pub fn learn(&mut self, looked_at: &[u32], vms: Vec<Vm>) {
        self.roll.learn(looked_at, vms);
    }

    /// Given all VMs of this host: a vCPU whose VM was among those of the look before and is gone
    /// gives up its place, though its thread lives on.
    ///
    /// # Errors
    /// If the maps cannot be read or written.
    pub fn forget_gone(&mut self, vms: &[Vm]) -> std::io::Result<()> {
        self.roll.forget_gone(&self.object, vms)
    }

    /// Attaches every group that can be attached; one that cannot is reported by
    /// [`ExitTracer::exit_statuses`]. Nothing is counted before [`ExitTracer::count`].
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

    /// Counts from here: all programs are attached, so that no begin is seen without the one
    /// that sees its end.
    ///
    /// # Errors
    /// If the maps cannot be written.
    pub fn count(&mut self) -> std::io::Result<()> {
        let controls = wire::controls(true, self.followed);
        self.object.set(".data", 0, &controls)
    }

    /// Stops counting: what is read afterwards is final.
    ///
    /// # Errors
    /// If the maps cannot be written.
    pub fn detach(&mut self) -> std::io::Result<()> {
        // Begins first: programs go one by one.
        let controls = wire::controls(false, self.followed);
        self.object.set(".data", 0, &controls)?;
        self.links.clear();
        Ok(())
    }

    /// The vCPUs there are, in the order in which they were seen; those that have ended were
    /// told by [`ExitTracer::drain`]. What is counted of one is of one instant, unless it exits
    /// all the time.
    ///
    /// # Errors
    /// If the maps cannot be read.
    pub fn read(&self) -> std::io::Result<Vec<(Vcpu, VcpuTotals)>> {
        let present = self.roll.table.present().into_iter();
        present
            .map(|(id, place)| {
                // Its map entries are read one after the other while it goes on.
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

    /// Whether this KVM never says that a guest left (kvm_pvm): an exit is then the time
    /// between two KVM_RUN, and exits handled in the kernel stay unknown.
    pub fn kvm_run_only(&self) -> bool {
        self.plan.kvm_run_only
    }

    /// Which events this run can see, once its programs are attached.
    pub fn witnesses(&self) -> Witnesses {
        self.watched.witnesses()
    }

    /// How what the host does to vCPUs is witnessed, group by group, and what is missing. Exits
    /// themselves have statuses of their own.
    fn probe_statuses(&self) -> Vec<ProbeStatus> {
        let of_kvm = |group: Group| matches!(group, Group::KvmRun | Group::KvmExit);
        let probe_statuses = self.watched.probe_statuses();
        probe_statuses
            .filter(|(group, _)| !of_kvm(*group))
            .map(|(_, probe_status)| probe_status)
            .collect()
    }

    /// Hands over each vCPU that has come since the last call, everything that was reported, and
    /// the totals of each vCPU that has ended. Each source and each vCPU is defined before its
    /// first use; an exit comes after the intervals and activities that it is made of, but for
    /// interrupts in progress on a CPU that it left. Call it a few times a second.
    ///
    /// # Errors
    /// If the ring buffer or the maps cannot be read or written.
    pub fn drain(&mut self, sink: &mut dyn FnMut(Event)) -> Result<(), TraceError> {
        // Who has ended by now has told all there was.
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

    /// Says what was counted of a vCPU that has ended, and gives its place to others.
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

    /// Whether [`ExitTracer::report_clocks`] tells any: it needs the stream.
    pub fn reports_clocks(&self) -> bool {
        self.stream.is_some()
    }

    /// Of the clocks of the guests of all vCPUs there are, reports those that are new in this look at
    /// KVM's debugfs, or have changed. Each vCPU is defined before.
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
        // What was written before the look is in the ring by now.
        self.drain(sink)?;
        if let Some(stream) = &mut self.stream {
            stream.report_clocks(look, &self.roll.looked_up(), sink);
        }
        Ok(())
    }

    /// Whether the instants of changes of guests' clocks are reported, beside what they are.
    pub fn dates_clocks(&self) -> bool {
        let mut programs = self.object.progs();
        programs.any(|program| program.name() == TSC_WRITES && program.autoload())
    }

    /// What was lost since start, kind by kind; a count that is 0 is known to be 0. Nothing
    /// but events that were missed and vCPUs without room is lost to what is counted.
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
