//! Counts every exit of every vCPU of this host in the kernel. User space only reads the counts.
//! Exits are also reported one by one if this is requested.

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

use vmnoise_events::{Event, Loss, LossKind, ProbeStatus, Vcpu, VcpuId, VcpuTotals, Witnesses};

use crate::btf::KernelBtf;
use crate::error::{LoadError, TraceError};
use crate::maps::Maps;
use crate::object::Programs;
use crate::probes::{Group, Kernel};
use crate::watched::Watched;
use vmnoise_host::{Host, VmProcess};

pub use clocks::ClockLook;
pub use decode::ExitDecoder;
pub use guest_clocks::GuestClocks;
use load::{Plan, TSC_WRITES};
pub(crate) use reasons::ReasonSource;
use renewal::Before;
use roll::Roll;
use stream::Stream;
use table::Table;
use wire::{WireReason, WireVcpu};

/// Number of reasons for which each vCPU has sums: EXITS_REASONS of `bpf/exits.h`.
const REASONS: usize = 40;

/// Largest number of times that a vCPU's counts are read again, until two readings are equal.
const READS: usize = 4;

/// Records that are reported one by one, in addition to the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streaming {
    /// No records. Counting alone costs least.
    Off,
    /// Exits, what kept the threads of vCPUs from running their guests, and the host's work during
    /// this time.
    Exits {
        /// Shortest noise, in ns, of an exit that is reported. Noise is the length of the exit
        /// without the guest's own halts.
        threshold_ns: u64,
    },
    /// Every exit of one VM at a time, in one time window after another ([`ExitTracer::follow`]).
    /// The programs measure their own cost.
    Stretches,
}

/// The programs that count exits. They run from [`ExitTracer::attach`] until this value is dropped.
#[derive(Debug)]
pub struct ExitTracer {
    // This field is dropped first, so that no program runs while the other fields are dropped.
    programs: Programs,
    stream: Option<Stream>,
    plan: Plan,
    reasons: ReasonSource,
    roll: Roll,
    watched: Watched,
    /// Process id of the VM whose vCPUs are counted; 0: vCPUs of all processes.
    followed: u32,
    before: Before,
}

impl ExitTracer {
    /// Loads the programs. Nothing runs yet. `vcpus` is the largest number of vCPUs at a time.
    ///
    /// # Errors
    /// [`LoadError::Refused`] if this machine does not allow BPF, or this process has no right to
    /// use it. [`LoadError::Broken`] if BPF is allowed, but the programs do not load.
    pub fn load(vcpus: u32, streaming: Streaming) -> Result<ExitTracer, LoadError> {
        let btf = KernelBtf::read()?;
        Self::load_on(&btf, vcpus, streaming)
    }

    /// Does the same as [`ExitTracer::load`] with the given type information of the kernel.
    fn load_on(btf: &KernelBtf, vcpus: u32, streaming: Streaming) -> Result<ExitTracer, LoadError> {
        let host = Host::here();
        let reasons = ReasonSource::of(host.kvm_module().as_deref(), btf);
        let plan = Plan {
            vcpus,
            streaming,
            kvm_run_only: reasons == ReasonSource::KvmRun,
            preempt_rt: host.is_preempt_rt(),
        };
        let (programs, absent) = plan.load(btf)?;
        let stream = match streaming {
            Streaming::Off => None,
            Streaming::Exits { .. } | Streaming::Stretches => Some(Stream::of(&programs)?),
        };
        let table = Table::new(&programs, vcpus);
        let table = table.map_err(|error| LoadError::Broken(format!("the vCPUs: {error}")))?;
        // `reasons_status` reports the source of the reasons. On PREEMPT_RT, a softirq's time ends
        // at the switch to the task that preempts it.
        let kernel = Kernel::of(&host, btf, &programs.hooked(), plan.kvm_run_only);
        Ok(ExitTracer {
            programs,
            stream,
            plan,
            reasons,
            roll: Roll::new(table, !plan.kvm_run_only),
            watched: Watched::new(Plan::groups(), absent, &kernel),
            followed: 0,
            before: Before::default(),
        })
    }

    /// Puts the threads that are already vCPUs into the kernel's table, for all VMs of this host.
    /// Otherwise a vCPU that stays in its guest would be found late. Later vCPUs are found when
    /// they come. Call this function before [`ExitTracer::attach`].
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
                self.roll.table.seat(&self.programs, &vcpu)?;
            }
        }
        self.roll.gone(&vms);
        self.roll.learn(&[], vms);
        Ok(())
    }

    /// Finds new vCPUs. Returns the process ids of the vCPUs that have come since the last call.
    /// Look up the VMs of these processes while they live, and pass the VMs to
    /// [`ExitTracer::learn`].
    ///
    /// # Errors
    /// If the maps cannot be read.
    pub fn newcomers(&mut self) -> std::io::Result<Vec<u32>> {
        self.roll.look(&self.programs)
    }

    /// Stores the names of the given VMs and their vCPUs. `looked_at` are the process ids of new
    /// vCPUs that were looked up. Names are kept after vCPUs end. A vCPU that ended during the
    /// look-up also gets its name.
    pub fn learn(&mut self, looked_at: &[u32], vms: Vec<VmProcess>) {
        self.roll.learn(looked_at, vms);
    }

    /// Frees the table slots of vCPUs whose VM is gone, although their thread still lives. `vms`
    /// are all VMs of this host. A VM is gone if it was in `vms` at the previous call, and is not
    /// in it now.
    ///
    /// # Errors
    /// If the maps cannot be read or written.
    pub fn forget_gone(&mut self, vms: &[VmProcess]) -> std::io::Result<()> {
        self.roll.forget_gone(&self.programs, vms)
    }

    /// Attaches all groups that can be attached. [`ExitTracer::exit_statuses`] reports the others.
    /// Nothing is counted before [`ExitTracer::count`].
    ///
    /// # Errors
    /// If exits cannot be reported.
    pub fn attach(&mut self) -> Result<(), TraceError> {
        let links = self.watched.attach(&self.programs);
        if let Some((_, why)) = self.plan.lacks(self.watched.absent()) {
            return Err(TraceError::NothingAttached(why.clone()));
        }
        self.programs.hold(links);
        Ok(())
    }

    /// Begins to count. All programs must be attached before. Otherwise the begin of an exit could
    /// be counted without its end.
    ///
    /// # Errors
    /// If the maps cannot be written.
    pub fn count(&mut self) -> std::io::Result<()> {
        let controls = wire::controls(true, self.followed);
        self.programs.set(".data", 0, &controls)
    }

    /// Stops counting. Counts that are read afterwards are final.
    ///
    /// # Errors
    /// If the maps cannot be written.
    pub fn detach(&mut self) -> std::io::Result<()> {
        // Counting of begins stops first, because programs are detached one by one.
        let controls = wire::controls(false, self.followed);
        self.programs.set(".data", 0, &controls)?;
        self.programs.detach();
        Ok(())
    }

    /// Returns the vCPUs that are present, in the order in which they were first seen, with their
    /// totals. [`ExitTracer::drain`] reports the vCPUs that have ended. The counts of one vCPU are
    /// from one instant, unless it exits all the time.
    ///
    /// # Errors
    /// If the maps cannot be read.
    pub fn read(&self) -> std::io::Result<Vec<(Vcpu, VcpuTotals)>> {
        let present = self.roll.table.present().into_iter();
        present
            .map(|(id, place)| {
                // The counts are in several map entries, which are read one after the other while
                // the vCPU runs.
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
        let globals = wire::globals(&self.programs)?;
        let vcpu = self.programs.value::<WireVcpu>("vcpus", place)?;
        let vcpu = vcpu.ok_or_else(|| std::io::Error::other("a vCPU beyond the table"))?;
        let first = place * REASONS as u32;
        let reasons: Vec<WireReason> = (first..first + globals.reasons_known.min(REASONS as u32))
            .map_while(|key| self.programs.value("reasons", key).transpose())
            .collect::<Result<_, _>>()?;
        Ok((
            self.roll.vcpu(id, &vcpu),
            totals::vcpu(id, &vcpu, &reasons, &globals, self.plan.kvm_run_only),
        ))
    }

    /// Returns whether this KVM (kvm_pvm) never reports that a guest was left. An exit is then the
    /// time between two KVM_RUN calls. Exits that the kernel handled alone are unknown.
    pub fn kvm_run_only(&self) -> bool {
        self.plan.kvm_run_only
    }

    /// Returns which events this run can observe. Call it after the programs are attached.
    pub fn witnesses(&self) -> Witnesses {
        self.watched.witnesses()
    }

    /// Returns the status of each group that observes the host's work on vCPUs. Exits have their
    /// own statuses.
    fn probe_statuses(&self) -> Vec<ProbeStatus> {
        let of_kvm = |group: Group| matches!(group, Group::KvmRun | Group::KvmExit);
        let probe_statuses = self.watched.probe_statuses();
        probe_statuses
            .filter(|(group, _)| !of_kvm(*group))
            .map(|(_, probe_status)| probe_status)
            .collect()
    }

    /// Reports each vCPU that has come since the last call, all records, and the totals of each
    /// vCPU that has ended. Each source and each vCPU is defined before its first use. The
    /// intervals and activities during an exit are reported before the exit. Interrupts in progress
    /// on a CPU that the exit left are an exception. Call this function a few times a second.
    /// # Errors
    /// If the ring buffer or the maps cannot be read or written.
    pub fn drain(&mut self, sink: &mut dyn FnMut(Event)) -> Result<(), TraceError> {
        // All records of vCPUs that have already ended are in the ring buffer now.
        let roll = &mut self.roll;
        roll.define(&self.programs, sink).map_err(TraceError::Ring)?;
        let ended = roll.table.take_ended();
        if let Some(stream) = &mut self.stream {
            stream.drain(&self.programs, roll, sink)?;
        }
        for (id, place) in ended {
            self.report_last(id, place, sink)
                .map_err(TraceError::Ring)?;
        }
        Ok(())
    }

    /// Reports the totals of a vCPU that has ended, and frees its table slot.
    fn report_last(
        &mut self,
        id: VcpuId,
        place: u32,
        sink: &mut dyn FnMut(Event),
    ) -> std::io::Result<()> {
        let (vcpu, totals) = self.read_vcpu(id, place)?;
        sink(Event::Vcpu(vcpu));
        sink(Event::VcpuTotals(totals));
        self.roll.bury(&self.programs, id, place)
    }

    /// Returns whether [`ExitTracer::report_clocks`] can report clocks. It requires [`Streaming`]
    /// other than `Off`.
    pub fn reports_clocks(&self) -> bool {
        self.stream.is_some()
    }

    /// Reports the guests' clocks that are new or have changed in this reading of KVM's clocks. It
    /// covers all present vCPUs. Each vCPU is defined before its clock.
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
        // Writes of clocks from before the reading are in the ring buffer now.
        self.drain(sink)?;
        if let Some(stream) = &mut self.stream {
            stream.report_clocks(look, &self.roll.looked_up(), sink);
        }
        Ok(())
    }

    /// Returns whether the instants at which guests' clocks changed are reported.
    pub fn dates_clocks(&self) -> bool {
        let mut programs = self.programs.progs();
        programs.any(|program| program.name() == TSC_WRITES && program.autoload())
    }

    /// Returns the number of losses since the start, by kind. A count of 0 means that nothing was
    /// lost. The counts of exits are affected only by missed events and vCPUs without room.
    ///
    /// # Errors
    /// If the maps cannot be read.
    pub fn losses(&self) -> std::io::Result<Vec<Loss>> {
        let globals = wire::globals(&self.programs)?;
        let undecodable = self.stream.as_ref().map_or(0, Stream::undecodable);
        let missed = self.programs.missed()?.saturating_sub(self.before.missed);
        let counts = [
            (LossKind::RingFull, globals.records_lost),
            (LossKind::Recursion, missed),
            (LossKind::Unpaired, globals.unpaired),
            (LossKind::Undecodable, undecodable),
            (LossKind::VcpusFull, globals.vcpus_lost),
        ];
        Ok(counts.map(|(kind, count)| Loss { kind, count }).to_vec())
    }
}
