//! Observes the threads of one command: the time that was taken from them, and who took it. The
//! programs follow forks and add up the times in the kernel. A build with thousands of processes
//! thus costs no more than one with a few.

#[cfg(test)]
mod tests;
mod wire;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::mem::offset_of;
use std::sync::atomic::Ordering::{Relaxed, Release};

use libbpf_rs::{MapCore, MapFlags, ProgramInput};
use vmnoise_events::{
    FamilyBooks, FamilyCulprit, FamilyCulpritKind, FamilyLongest, FamilyLook, FamilyMember,
    FamilyTaken, Name,
};

use wire::{KINDS, WireCpu, WireCulprit, WireLosses, WireMember, WireSource};

use crate::accounting::misses_of;
use crate::btf::KernelBtf;
use crate::decode::{self, WIRE_SOURCE_BYTES};
use crate::error::{LoadError, TraceError};
use crate::mapped_array::MappedArray;
use crate::maps::Maps;
use crate::object::{ObjectPlan, Programs, walk};
use crate::own_cpus::settings;
use crate::plain;
use crate::probes::Group;
use crate::steal::{StealClock, Variable};
use vmnoise_host::Host;

/// One of this many program runs is timed: OWN_TIMED_RUN of `bpf/own_cpus.h`.
const TIMED_RUN: u64 = 251;
/// Largest number of attempts to read the living threads while none of them ends. After the command
/// has ended, one attempt is enough.
const MEMBER_TRIES: usize = 8;
/// Groups of events that this module needs.
const GROUPS: [Group; 4] = [Group::Irq, Group::Softirq, Group::Sched, Group::Follow];
/// Further tracepoints that this module needs.
const TRACEPOINTS: [&str; 2] = ["sched_wakeup_new", "sched_process_fork"];

/// The programs that follow one command. They run from [`Family::attach`] until this value is
/// dropped.
#[derive(Debug)]
pub struct Family {
    // This field is dropped first, so that no program runs while the other fields are dropped.
    programs: Programs,
    cpus: MappedArray<WireCpu>,
    losses: MappedArray<WireLosses>,
    sees_steal: bool,
    sees_nmi: bool,
}

impl Family {
    /// Loads the programs. Nothing runs yet.
    ///
    /// # Errors
    /// [`LoadError::Refused`] if this machine does not allow BPF, or this process has no right to
    /// use it. [`LoadError::Broken`] if BPF is allowed, but the programs do not load.
    pub fn load() -> Result<Family, LoadError> {
        let host = Host::here();
        let btf = KernelBtf::read()?;
        let mut missing = GROUPS
            .iter()
            .filter_map(|group| group.missing(&btf))
            .chain(TRACEPOINTS.iter().filter_map(|name| btf.why_not(name)));
        if let Some(why) = missing.next() {
            return Err(LoadError::Refused {
                why: format!("{why}: time taken from a command cannot be measured"),
                remedy: Group::Sched.remedy().to_owned(),
            });
        }
        let broken = |error: io::Error| LoadError::Broken(format!("the CPUs: {error}"));
        let online = host.online_cpus().map_err(broken)?;
        let hypervisor = host.hypervisor();
        let variable = hypervisor
            .as_deref()
            .and_then(|name| Variable::of(btf.minus_run_queue, name));
        let programs = load(&btf, variable)?;
        let mut family = Family {
            cpus: programs.mapped("cpus").map_err(broken)?,
            losses: programs.mapped("losses").map_err(broken)?,
            programs,
            sees_steal: hypervisor.is_none(),
            sees_nmi: Group::Nmi.missing(&btf).is_none(),
        };
        if let Some(variable) = variable {
            family.sees_steal = family.find_clocks(variable, &online);
        }
        Ok(family)
    }

    /// Finds the steal clock of each CPU. Returns whether every CPU has a clock that can be read at
    /// any time.
    fn find_clocks(&self, variable: Variable, online: &[u32]) -> bool {
        let run_queue = |cpu| {
            let word = self.cpus.u64(cpu, offset_of!(WireCpu, run_queue))?;
            Some(word.load(Relaxed)).filter(|address| *address != 0)
        };
        let clock = StealClock::find(&self.programs, Some(variable), &run_queue, online);
        let clocks = clock.addresses(&run_queue, online).unwrap_or_default();
        for &(cpu, clock) in &clocks {
            if let Some(word) = self.cpus.u64(cpu, offset_of!(WireCpu, own.steal_clock)) {
                word.store(clock, Release);
            }
        }
        !clocks.is_empty()
    }

    /// Attaches all programs.
    ///
    /// # Errors
    /// If a program cannot be attached.
    pub fn attach(&mut self) -> Result<(), TraceError> {
        self.programs.attach()
    }

    /// Makes the next process that this thread starts the command that is followed.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn starts_next(&self) -> io::Result<()> {
        let mut programs = self.programs.progs_mut();
        let program = programs.find(|it| it.name() == "will_start");
        let program = program.ok_or(io::ErrorKind::NotFound)?;
        let run = program.test_run(ProgramInput::default());
        run.map(|_| ()).map_err(io::Error::other)
    }

    /// Returns whether steal time is known. This is the case if there is no hypervisor, or if the
    /// hypervisor reports steal time.
    pub fn sees_steal(&self) -> bool {
        self.sees_steal
    }

    /// Returns whether NMIs are observed.
    pub fn sees_nmi(&self) -> bool {
        self.sees_nmi
    }

    /// Returns all counts so far.
    ///
    /// # Errors
    /// If the kernel does not report them.
    pub fn look(&self) -> io::Result<FamilyLook> {
        let (alive, ended) = self.members()?;
        let mut look = FamilyLook {
            alive,
            ended,
            culprits: self.culprits()?,
            missed: self.programs.missed()?,
            unpaired: self.cpus.sum(offset_of!(WireCpu, unpaired))
                + self.cpus.sum(offset_of!(WireCpu, contended))
                + self.cpus.sum(offset_of!(WireCpu, own.unpaired)),
            unbounded: self.cpus.sum(offset_of!(WireCpu, contended))
                + self.cpus.sum(offset_of!(WireCpu, own.unpaired))
                + misses_of(&self.programs, &is_of_interrupts)?,
            unfollowed: self.losses.sum(offset_of!(WireLosses, unfollowed))
                + misses_of(&self.programs, &|it| it == "sched_process_fork")?,
            probe_ns: self.cpus.sum(offset_of!(WireCpu, own.timed_ns)) * TIMED_RUN,
            ..FamilyLook::default()
        };
        let mut longest: [Option<FamilyLongest>; KINDS] = Default::default();
        for wire in self.wire_cpus() {
            wire.add_waits(&mut look.waits);
            take_longer(&mut longest, &wire);
            look.contiguous_ns = look.contiguous_ns.max(wire.longest_piece);
            look.most_of_ended_ns = look.most_of_ended_ns.max(wire.most_of_one);
        }
        look.longest = longest.into_iter().flatten().collect();
        look.waits.unnamed_ns += self.losses.sum(offset_of!(WireLosses, unnamed));
        Ok(look)
    }

    /// Returns the times of each living thread, and the sum of the times of ended threads. A thread
    /// that ends between the two readings would be in both, so both are then read again.
    fn members(&self) -> io::Result<(Vec<FamilyMember>, FamilyBooks)> {
        let ended = || {
            let mut books = FamilyBooks::default();
            for wire in self.wire_cpus() {
                books.add(&FamilyBooks::from(&wire.ended));
            }
            books
        };
        let mut before = ended();
        for _ in 1..MEMBER_TRIES {
            let alive = self.alive()?;
            let after = ended();
            if after.threads == before.threads {
                return Ok((alive, after));
            }
            before = after;
        }
        Ok((self.alive()?, before))
    }

    fn wire_cpus(&self) -> impl Iterator<Item = WireCpu> + '_ {
        let cpus = 0..u32::try_from(self.cpus.slots()).unwrap_or(u32::MAX);
        cpus.filter_map(|cpu| self.wire_cpu(cpu))
    }

    fn wire_cpu(&self, cpu: u32) -> Option<WireCpu> {
        let words = self.cpus.words(cpu)?;
        let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
        plain::read(&bytes)
    }

    fn culprits(&self) -> io::Result<Vec<FamilyCulprit>> {
        let map = self.programs.map("culprits");
        let mut culprits = HashMap::<_, FamilyCulprit>::new();
        for key in map.keys() {
            let value = map.lookup(&key, MapFlags::ANY).map_err(io::Error::other)?;
            let wire = value.and_then(|bytes| plain::read::<WireCulprit>(&bytes));
            let (Some(wire), Some((kind, name))) = (wire, who_is(&key)) else {
                continue;
            };
            let known = culprits.entry((kind, name.as_str().to_owned()));
            let known = known.or_insert(FamilyCulprit {
                kind,
                name,
                ns: 0,
                count: 0,
                longest_ns: 0,
            });
            known.ns += wire.ns;
            known.count += wire.count;
            known.longest_ns = known.longest_ns.max(wire.longest);
        }
        let mut culprits: Vec<FamilyCulprit> = culprits.into_values().collect();
        culprits.sort_by(|a, b| (b.ns, a.name.as_str()).cmp(&(a.ns, b.name.as_str())));
        Ok(culprits)
    }

    fn alive(&self) -> io::Result<Vec<FamilyMember>> {
        let walker = self.programs.walker("find_members");
        let found = walk(&walker.map_err(io::Error::other)?)?;
        let member = |wire: WireMember| FamilyMember {
            tid: wire.tid,
            books: FamilyBooks::from(&wire.books),
        };
        Ok(plain::read_all(&found).map(member).collect())
    }
}

/// Returns whether a program observes interrupts instead of threads. The names of programs that
/// follow threads begin with `sched_`, like their tracepoints.
fn is_of_interrupts(program: &OsStr) -> bool {
    !program.as_encoded_bytes().starts_with(b"sched_")
}

fn who_is(key: &[u8]) -> Option<(FamilyCulpritKind, Name)> {
    let key: &[u8; WIRE_SOURCE_BYTES] = key.try_into().ok()?;
    let kind = match decode::share_of(key)? {
        decode::Took::Task => FamilyCulpritKind::Task,
        decode::Took::Irq => FamilyCulpritKind::Irq,
        decode::Took::Softirq => FamilyCulpritKind::Softirq,
    };
    Some((kind, decode::name_of(key)?.into()))
}

fn take_longer(longest: &mut [Option<FamilyLongest>; KINDS], wire: &WireCpu) {
    let kinds = [
        FamilyTaken::Wait,
        FamilyTaken::Irq,
        FamilyTaken::Softirq,
        FamilyTaken::Nmi,
        FamilyTaken::Steal,
    ];
    for ((known, wire), taken) in longest.iter_mut().zip(&wire.longest).zip(kinds) {
        if wire.ns > known.as_ref().map_or(0, |known| known.ns) {
            *known = Some(FamilyLongest {
                taken,
                ns: wire.ns,
                until_mono_ns: wire.until,
                who: decode::name_of(&source_bytes(&wire.who))
                    .filter(|_| wire.who.origin != 0)
                    .map(Name::from),
            });
        }
    }
}

fn source_bytes(wire: &WireSource) -> [u8; WIRE_SOURCE_BYTES] {
    let mut bytes = [0; WIRE_SOURCE_BYTES];
    bytes[offset_of!(WireSource, id)..][..4].copy_from_slice(&wire.id.to_ne_bytes());
    bytes[offset_of!(WireSource, origin)..][..4].copy_from_slice(&wire.origin.to_ne_bytes());
    for (to, from) in bytes[offset_of!(WireSource, name)..]
        .iter_mut()
        .zip(wire.name)
    {
        *to = from as u8;
    }
    bytes
}

fn load(btf: &KernelBtf, variable: Option<Variable>) -> Result<Programs, LoadError> {
    ObjectPlan {
        name: "vmnoise_family",
        compiled: wire::OBJECT,
        reads_kvm: false,
        wants: &|name, probe| match probe {
            Some(probe) => probe.fits(name, btf),
            None => variable.is_some() || !matches!(name, "find_run_queues" | "read_steal"),
        },
        entries: &|map, cpus| (map == "cpus").then_some(cpus),
        settings: &settings(variable.is_some_and(Variable::is_xen)),
    }
    .load()
}
