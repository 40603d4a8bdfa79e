//! Counts every exit of every vCPU of this host, in the kernel; user space only reads.

#[cfg(test)]
mod tests;
mod totals;
mod vm_names;
mod wire;

use libbpf_rs::{Link, Map, MapCore, MapFlags, Object, ObjectBuilder};
use vmnoise_events::{Vcpu, VcpuId, VcpuTotals};

use crate::accounting;
use crate::btf::KernelBtf;
use crate::error::{LoadError, TraceError};
use crate::host::{Host, Vm};
use crate::log::quietly;
use crate::object::why_not;
use crate::probes::Probe;
use crate::tracer::no_btf;

use vm_names::VmNames;
use wire::{Globals, WireReason, WireVcpu};

/// Reasons kept apart for each vCPU: EXITS_REASONS of `bpf/exits.h`.
const REASONS: usize = 40;

/// The programs that count exits. They run for as long as this is held.
#[derive(Debug)]
pub struct ExitTracer {
    links: Vec<Link>,
    object: Object,
    kvm_run_only: bool,
    names: VmNames,
}

impl ExitTracer {
    /// Loads the programs, with room for this many vCPUs; nothing runs yet.
    ///
    /// # Errors
    /// [`LoadError::Refused`] where this machine or these rights do not allow it,
    /// [`LoadError::Broken`] where they do and it fails.
    pub fn load(vcpus: u32) -> Result<ExitTracer, LoadError> {
        let btf = KernelBtf::read().map_err(|error| no_btf(&error))?;
        let kvm_run_only = Host::here().kvm_module().as_deref() == Some("kvm_pvm");
        let (result, warnings) = quietly(|| {
            let mut open = ObjectBuilder::default()
                .name("vmnoise_exits")?
                .open_memory(wire::OBJECT)?;
            for mut program in open.progs_mut() {
                let name = program.name().to_string_lossy().into_owned();
                let section = program.section().to_string_lossy().into_owned();
                let fits =
                    Probe::from_section(&section).is_none_or(|probe| probe.fits(&name, &btf));
                // Its reasons are told by kvm_exit, where that fires.
                let needed = name != "kvm_userspace_exit" || kvm_run_only;
                program.set_autoload(fits && needed);
            }
            let cpus = u32::try_from(libbpf_rs::num_possible_cpus()?).unwrap_or(u32::MAX);
            for mut map in open.maps_mut() {
                match map.name().to_str() {
                    Some("exit_cpus") => map.set_max_entries(cpus)?,
                    // Place 0 is nobody.
                    Some("vcpus") => map.set_max_entries(vcpus + 1)?,
                    Some("threads") => map.set_max_entries(vcpus)?,
                    Some("reasons") => map.set_max_entries((vcpus + 1) * REASONS as u32)?,
                    Some(name) if name.ends_with(".rodata") => {
                        map.set_initial_value(&[u8::from(kvm_run_only)])?;
                    }
                    _ => {}
                }
            }
            open.load()
        });
        Ok(ExitTracer {
            links: Vec::new(),
            kvm_run_only,
            names: VmNames::default(),
            object: result.map_err(|error: libbpf_rs::Error| why_not(&error, &warnings))?,
        })
    }

    /// Names threads that are vCPUs already: one that stays in its guest would be seen
    /// late. Others are found as they come. Before [`ExitTracer::attach`].
    ///
    /// # Errors
    /// If the maps cannot be written.
    pub fn expect(&mut self, vms: Vec<Vm>) -> std::io::Result<()> {
        let Some(mut globals) = self.globals()? else {
            return Ok(());
        };
        for vm in &vms {
            for thread in &vm.vcpus {
                let vcpu = WireVcpu {
                    tid: thread.tid,
                    tgid: vm.pid,
                    id: thread.id,
                    ..WireVcpu::default()
                };
                let index = globals.vcpus_known + 1;
                self.set("vcpus", index, wire::bytes(&vcpu))?;
                self.set("threads", thread.tid, &index.to_ne_bytes())?;
                globals.vcpus_known = index;
            }
        }
        self.set(".bss", 0, wire::bytes(&globals))?;
        self.learn(vms);
        Ok(())
    }

    /// Remembers what these VMs and their vCPUs are called, beyond their end.
    pub fn learn(&mut self, vms: Vec<Vm>) {
        self.names.learn(vms);
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

    /// All vCPUs seen so far, in the order in which they were seen.
    ///
    /// # Errors
    /// If the maps cannot be read.
    pub fn read(&self) -> std::io::Result<Vec<(Vcpu, VcpuTotals)>> {
        let Some(globals) = self.globals()? else {
            return Ok(Vec::new());
        };
        let mut vcpus = Vec::new();
        for index in 1..=globals.vcpus_known {
            let Some(vcpu) = self.value::<WireVcpu>("vcpus", index)? else {
                break;
            };
            let first = index * REASONS as u32;
            let reasons: Vec<WireReason> = (first
                ..first + globals.reasons_known.min(REASONS as u32))
                .map_while(|key| self.value("reasons", key).transpose())
                .collect::<Result<_, _>>()?;
            let id = VcpuId(index - 1);
            vcpus.push((
                self.names.vcpu(id, &vcpu, !self.kvm_run_only),
                totals::vcpu(id, &vcpu, &reasons, &globals),
            ));
        }
        Ok(vcpus)
    }

    /// Whether this KVM never says that a guest left (kvm_pvm): an exit is then the time
    /// between two KVM_RUN, and exits handled in the kernel stay unknown.
    pub fn kvm_run_only(&self) -> bool {
        self.kvm_run_only
    }

    /// vCPUs that found no room.
    ///
    /// # Errors
    /// If the maps cannot be read.
    pub fn lost_vcpus(&self) -> std::io::Result<u64> {
        Ok(self.globals()?.map_or(0, |globals| globals.vcpus_lost))
    }

    /// Events that a program missed because it was already running on that CPU.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn missed_events(&self) -> std::io::Result<u64> {
        accounting::recursion_misses(&self.object)
    }

    fn globals(&self) -> std::io::Result<Option<Globals>> {
        self.value(".bss", 0)
    }

    fn value<Value: wire::Plain>(&self, map: &str, key: u32) -> std::io::Result<Option<Value>> {
        let bytes = self
            .map(map)
            .lookup(&key.to_ne_bytes(), MapFlags::ANY)
            .map_err(std::io::Error::other)?;
        Ok(bytes.and_then(|bytes| wire::read(&bytes)))
    }

    fn set(&self, map: &str, key: u32, value: &[u8]) -> std::io::Result<()> {
        self.map(map)
            .update(&key.to_ne_bytes(), value, MapFlags::ANY)
            .map_err(std::io::Error::other)
    }

    /// The kernel puts the object's name before `.bss`.
    fn map(&self, name: &str) -> Map<'_> {
        let is_it = |map: &Map<'_>| {
            let known = map.name().to_string_lossy();
            known == name || (name.starts_with('.') && known.ends_with(name))
        };
        let map = self.object.maps().find(is_it);
        map.expect("the map was there when the programs were loaded")
    }
}
