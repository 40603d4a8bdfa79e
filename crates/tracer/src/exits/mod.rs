//! Counts every exit of every vCPU of this host, in the kernel; user space only reads. What
//! is asked for is told one by one as well.

mod clocks;
mod decode;
mod maps;
mod reasons;
mod stream;
#[cfg(test)]
mod tests;
mod totals;
mod vm_names;
mod wire;

use libbpf_rs::{Link, MapCore, Object, ObjectBuilder};
use vmnoise_events::{Event, Loss, LossKind, Vcpu, VcpuId, VcpuTotals};

use crate::accounting;
use crate::btf::KernelBtf;
use crate::error::{LoadError, TraceError};
use crate::host::{Host, Vm};
use crate::log::quietly;
use crate::object::why_not;
use crate::probes::Probe;
use crate::tracer::no_btf;

use clocks::Look;
use maps::Maps;
pub use reasons::ReasonSource;
use stream::{ReadVcpu, Stream};
use vm_names::VmNames;
use wire::{WireReason, WireVcpu};

/// Reasons kept apart for each vCPU: EXITS_REASONS of `bpf/exits.h`.
const REASONS: usize = 40;

/// How often a vCPU's counts are read again until they stand still.
const READS: usize = 4;

/// The program that dates changes of a guest's clock.
const TSC_WRITES: &str = "kvm_write_tsc_offset";

/// What is told one by one, beside what is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streaming {
    /// Nothing: counting costs least.
    Off,
    /// Exits, what kept their vCPUs' threads from their guests, and what the host did there.
    Exits {
        /// The least noise of an exit that is told, in nanoseconds: its length without the
        /// guest's own halts.
        threshold_ns: u64,
    },
}

/// What a stream does, given a reader of what is known of a vCPU.
type Telling<'a> = dyn FnMut(&mut Stream, &ReadVcpu<'_>) -> Result<(), TraceError> + 'a;

/// The programs that count exits. They run for as long as this is held.
#[derive(Debug)]
pub struct ExitTracer {
    // Dropped first: nothing runs any more while the rest goes.
    links: Vec<Link>,
    stream: Option<Stream>,
    object: Object,
    kvm_run_only: bool,
    reasons: ReasonSource,
    names: VmNames,
    /// How many vCPUs there were when names were learned last.
    named: u32,
}

impl ExitTracer {
    /// Loads the programs, with room for this many vCPUs; nothing runs yet.
    ///
    /// # Errors
    /// [`LoadError::Refused`] where this machine or these rights do not allow it,
    /// [`LoadError::Broken`] where they do and it fails.
    pub fn load(vcpus: u32, streaming: Streaming) -> Result<ExitTracer, LoadError> {
        let btf = KernelBtf::read().map_err(|error| no_btf(&error))?;
        let reasons = ReasonSource::of(Host::here().kvm_module().as_deref(), &btf);
        let kvm_run_only = reasons == ReasonSource::KvmRun;
        let (result, warnings) = quietly(|| {
            let mut open = ObjectBuilder::default()
                .name("vmnoise_exits")?
                .open_memory(wire::OBJECT)?;
            for mut program in open.progs_mut() {
                let name = program.name().to_string_lossy().into_owned();
                let section = program.section().to_string_lossy().into_owned();
                let fits =
                    Probe::from_section(&section).is_none_or(|probe| probe.fits(&name, &btf));
                let needed = match name.as_str() {
                    // Its reasons are told by kvm_exit, where that fires.
                    "kvm_userspace_exit" => kvm_run_only,
                    TSC_WRITES => streaming != Streaming::Off,
                    _ => true,
                };
                program.set_autoload(fits && needed);
            }
            let cpus = u32::try_from(libbpf_rs::num_possible_cpus()?).unwrap_or(u32::MAX);
            for mut map in open.maps_mut() {
                match map.name().to_str() {
                    Some("exit_cpus") => map.set_max_entries(cpus)?,
                    // Place 0 is nobody.
                    Some("vcpus") => map.set_max_entries(vcpus + 1)?,
                    Some("threads") => map.set_max_entries(vcpus)?,
                    Some("records") => map.set_max_entries(streaming.ring_bytes())?,
                    Some("reasons") => map.set_max_entries((vcpus + 1) * REASONS as u32)?,
                    Some(name) if name.ends_with(".rodata") => {
                        map.set_initial_value(&wire::settings(kvm_run_only, streaming))?;
                    }
                    _ => {}
                }
            }
            open.load()
        });
        let object = result.map_err(|error: libbpf_rs::Error| why_not(&error, &warnings))?;
        let stream = match streaming {
            Streaming::Off => None,
            Streaming::Exits { .. } => Some(Stream::of(&object)?),
        };
        Ok(ExitTracer {
            links: Vec::new(),
            stream,
            kvm_run_only,
            reasons,
            names: VmNames::default(),
            named: 0,
            object,
        })
    }

    /// Names threads that are vCPUs already: one that stays in its guest would be seen
    /// late. Others are found as they come. Before [`ExitTracer::attach`].
    ///
    /// # Errors
    /// If the maps cannot be written.
    pub fn expect(&mut self, vms: Vec<Vm>) -> std::io::Result<()> {
        let mut globals = self.object.globals()?;
        for vm in &vms {
            for thread in &vm.vcpus {
                let vcpu = WireVcpu {
                    tid: thread.tid,
                    tgid: vm.pid,
                    id: thread.id,
                    ..WireVcpu::default()
                };
                let index = globals.vcpus_known + 1;
                self.object.set("vcpus", index, wire::bytes(&vcpu))?;
                self.object
                    .set("threads", thread.tid, &index.to_ne_bytes())?;
                globals.vcpus_known = index;
            }
        }
        self.object.set(".bss", 0, wire::bytes(&globals))?;
        self.learn(vms);
        Ok(())
    }

    /// Whether vCPUs have come since the last call, whose VMs had better be learned while
    /// they live.
    ///
    /// # Errors
    /// If the maps cannot be read.
    pub fn has_newcomers(&mut self) -> std::io::Result<bool> {
        let known = self.object.globals()?.vcpus_known;
        Ok(std::mem::replace(&mut self.named, known) != known)
    }

    /// Remembers what these VMs and their vCPUs are called, beyond their end.
    pub fn learn(&mut self, vms: Vec<Vm>) {
        self.names.learn(vms);
        if let Some(stream) = &mut self.stream {
            stream.learned();
        }
    }

    /// Attaches the programs: exits are counted from here.
    ///
    /// # Errors
    /// If a program cannot be attached.
    pub fn attach(&mut self) -> Result<(), TraceError> {
        for program in self.object.progs_mut().filter(|program| program.autoload()) {
            match quietly(|| program.attach()) {
                (Ok(link), _) => self.links.push(link),
                (Err(error), _) => {
                    let section = program.section().to_string_lossy();
                    return Err(TraceError::NothingAttached(format!("{section}: {error:#}")));
                }
            }
        }
        Ok(())
    }

    /// Stops counting: what is read afterwards is final.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    /// All vCPUs seen so far, in the order in which they were seen. What is counted of one is
    /// of one instant, unless it exits all the time.
    ///
    /// # Errors
    /// If the maps cannot be read.
    pub fn read(&self) -> std::io::Result<Vec<(Vcpu, VcpuTotals)>> {
        let known = self.object.globals()?.vcpus_known;
        let mut vcpus = Vec::new();
        for index in 1..=known {
            let Some(mut last) = self.read_vcpu(index)? else {
                break;
            };
            // Its map entries are read one after the other while it goes on.
            for _ in 0..READS {
                let Some(again) = self.read_vcpu(index)? else {
                    break;
                };
                let stands_still = again == last;
                last = again;
                if stands_still {
                    break;
                }
            }
            vcpus.push(last);
        }
        Ok(vcpus)
    }

    fn read_vcpu(&self, index: u32) -> std::io::Result<Option<(Vcpu, VcpuTotals)>> {
        let globals = self.object.globals()?;
        let Some(vcpu) = self.object.value::<WireVcpu>("vcpus", index)? else {
            return Ok(None);
        };
        let first = index * REASONS as u32;
        let reasons: Vec<WireReason> = (first..first + globals.reasons_known.min(REASONS as u32))
            .map_while(|key| self.object.value("reasons", key).transpose())
            .collect::<Result<_, _>>()?;
        let id = VcpuId(index - 1);
        Ok(Some((
            self.names.vcpu(id, &vcpu, !self.kvm_run_only),
            totals::vcpu(id, &vcpu, &reasons, &globals),
        )))
    }

    /// Whether this KVM never says that a guest left (kvm_pvm): an exit is then the time
    /// between two KVM_RUN, and exits handled in the kernel stay unknown.
    pub fn kvm_run_only(&self) -> bool {
        self.kvm_run_only
    }

    /// Hands over everything that was told since the last call. Each source and each vCPU
    /// is defined before its first use; an exit comes after the intervals and activities
    /// that it is made of, but for interrupts in progress on a CPU that it left. Call it a
    /// few times a second. Nothing is told where streaming is off.
    ///
    /// # Errors
    /// If the ring buffer or the maps cannot be read.
    pub fn drain(&mut self, sink: &mut dyn FnMut(Event)) -> Result<(), TraceError> {
        self.tell(&mut |stream, vcpu| stream.drain(vcpu, sink))
    }

    /// Looks at the clocks of the guests of all vCPUs seen so far in KVM's debugfs, and tells
    /// those that are new or have changed. Each vCPU is defined before. Nothing is told where
    /// streaming is off.
    ///
    /// # Errors
    /// If the maps cannot be read.
    pub fn tell_clocks(
        &mut self,
        host: &Host,
        sink: &mut dyn FnMut(Event),
    ) -> Result<(), TraceError> {
        if self.stream.is_none() {
            return Ok(());
        }
        let look = Look::at(host);
        // What was written before the look is in the ring by now.
        self.drain(sink)?;
        let room = self.object.map("vcpus").max_entries() - 1;
        let globals = self.object.globals().map_err(TraceError::Ring)?;
        let known = globals.vcpus_known.min(room);
        self.tell(&mut |stream, vcpu| stream.tell_clocks(&look, known, vcpu, sink))
    }

    /// Whether the instants of changes of guests' clocks are told, beside what they are.
    pub fn dates_clocks(&self) -> bool {
        let mut programs = self.object.progs();
        programs.any(|program| program.name() == TSC_WRITES && program.autoload())
    }

    /// Lets the stream tell something, if there is one.
    fn tell(&mut self, tell: &mut Telling<'_>) -> Result<(), TraceError> {
        let ExitTracer {
            stream,
            object,
            names,
            kvm_run_only,
            ..
        } = self;
        let Some(stream) = stream else {
            return Ok(());
        };
        let vcpu = |id: VcpuId| {
            let wire = object.value("vcpus", id.0 + 1)?;
            let wire = wire.ok_or_else(|| std::io::Error::other("a vCPU beyond the table"))?;
            Ok(names.vcpu(id, &wire, !*kvm_run_only))
        };
        tell(stream, &vcpu)
    }

    /// What was lost since start, kind by kind; a count that is 0 is known to be 0. Nothing
    /// but events that were missed and vCPUs without room is lost to what is counted.
    ///
    /// # Errors
    /// If the maps cannot be read.
    pub fn losses(&self) -> std::io::Result<Vec<Loss>> {
        let globals = self.object.globals()?;
        let undecodable = self.stream.as_ref().map_or(0, Stream::undecodable);
        let counts = [
            (LossKind::RingFull, globals.records_lost),
            (
                LossKind::Recursion,
                accounting::recursion_misses(&self.object)?,
            ),
            (LossKind::Unpaired, globals.runs_unpaired),
            (LossKind::Undecodable, undecodable),
            (LossKind::VcpusFull, globals.vcpus_lost),
        ];
        Ok(counts.map(|(kind, count)| Loss { kind, count }).to_vec())
    }

    /// How the reasons of exits come to be known.
    pub fn reasons(&self) -> ReasonSource {
        self.reasons
    }
}
