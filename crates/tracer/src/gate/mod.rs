//! Counts in the kernel how long each vCPU's thread of this host ran, waited and slept, and which
//! tasks had its CPU while it waited. The programs run for days. No event leaves the kernel, and
//! user space reads mapped memory.

mod books;
pub(crate) mod lengths;
mod piece_kind;
mod pieces;
mod state;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;
use std::sync::atomic::{
    Ordering::{Acquire, Relaxed},
    fence,
};

use libbpf_rs::Link;

pub use books::{GateSlot, GateVcpuId, VcpuBooks, WaitCulprit};
pub use lengths::{CLASSIC_NS, SCHEMA, WaitLengths};
pub use piece_kind::PieceKind;
use pieces::Rings;
pub use pieces::{LostPiece, LostPieces, Runner};
pub use state::VcpuThreadState;
use wire::{WireCpu, WireFound, WirePiece, WireVcpu};

use crate::btf::KernelBtf;
use crate::error::{LoadError, TraceError};
use crate::log::quietly;
use crate::mapped_array::MappedArray;
use crate::maps::Maps;
use crate::object::{ObjectPlan, Programs, not_attached, walk};
use crate::plain;
use crate::probes::Group;

/// Groups of events that the gate needs.
const GROUPS: [Group; 2] = [Group::Sched, Group::Follow];
/// Largest number of attempts to read a vCPU's counts while no program writes them.
const READS: usize = 100;
/// Name of the program that finds vCPUs. It walks over all tasks, like [`CONFIRMER`], which
/// confirms their states.
const FINDER: &str = "find_vcpus";
const CONFIRMER: &str = "confirm_vcpus";
/// Shortest length, in ns, of waits and sleeps that are reported piece by piece.
pub const TOLD_FROM_NS: u64 = 20_000;
/// One of this many program runs is timed: GATE_TIMED_RUN of `bpf/gate.h`.
const TIMED_RUN: u64 = 256;

/// A vCPU that a walk over all tasks has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkedVcpu {
    /// Index of the vCPU in the gate's table.
    pub place: GateSlot,
    /// Unique id of the vCPU. Culprits use the same id.
    pub id: GateVcpuId,
    /// Process id of the VMM.
    pub tgid: u32,
    /// Id of the vCPU's thread.
    pub tid: u32,
    /// Number of the vCPU in its VM; `None` if this kernel has no type information about KVM.
    pub number: Option<u32>,
}

/// Changes since the previous walk over all tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateLook {
    /// vCPUs that the walk found for the first time.
    pub came: Vec<WalkedVcpu>,
    /// vCPUs whose threads have ended, with their final times.
    pub ended: Vec<(WalkedVcpu, VcpuBooks)>,
    /// Number of vCPUs that have no free slot in the table.
    pub without_room: u32,
}

/// The programs that count. They run from [`Gate::attach`] until this value is dropped, except in
/// pauses.
#[derive(Debug)]
pub struct Gate {
    // This field is dropped first, so that no program runs while the other fields are dropped.
    programs: Programs,
    finder: Option<Link>,
    confirmer: Option<Link>,
    vcpus: MappedArray<WireVcpu>,
    cpus: MappedArray<WireCpu>,
    rings: Rings,
    present: BTreeMap<GateSlot, WalkedVcpu>,
    pause: Pause,
    /// Begin of the last pause, CLOCK_MONOTONIC in ns. `silent` has vCPUs that have had no event
    /// since then, and that the last walk did not find.
    paused_mono_ns: u64,
    silent: BTreeSet<GateSlot>,
}

/// Whether the programs are detached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pause {
    No,
    /// The programs are detached, but one may still be running.
    Begins,
    /// No program runs any more, and the state of each vCPU is unknown.
    Lasts,
}

impl Gate {
    /// Loads the programs. Nothing runs yet. `vcpus` is the largest number of vCPUs at a time.
    /// `pieces_bytes` is the size in bytes of the memory for pieces of lost time.
    ///
    /// # Errors
    /// [`LoadError::Refused`] if this machine does not allow BPF, or this process has no right to
    /// use it. [`LoadError::Broken`] if BPF is allowed, but the programs do not load.
    pub fn load(vcpus: u32, pieces_bytes: u64) -> Result<Gate, LoadError> {
        let btf = KernelBtf::read()?;
        if let Some((group, why)) = GROUPS
            .into_iter()
            .find_map(|group| Some((group, group.missing(&btf)?)))
        {
            return Err(LoadError::Refused {
                why: format!("{why}: waits of vCPUs cannot be measured"),
                remedy: group.remedy().to_owned(),
            });
        }
        let possible = libbpf_rs::num_possible_cpus()
            .map_err(|error| LoadError::Broken(format!("the CPUs: {error}")))?;
        let pieces_each = pieces_each(pieces_bytes, possible);
        let programs = load(&btf, vcpus, pieces_each)?;
        let broken = |error: std::io::Error| LoadError::Broken(format!("the vCPUs: {error}"));
        for place in 1..=vcpus {
            programs.push("free_places", place).map_err(broken)?;
        }
        let pieces = programs.mapped("gate_pieces").map_err(broken)?;
        Ok(Gate {
            vcpus: programs.mapped("gate_vcpus").map_err(broken)?,
            cpus: programs.mapped("gate_cpus").map_err(broken)?,
            rings: Rings::new(pieces, pieces_each),
            programs,
            finder: None,
            confirmer: None,
            present: BTreeMap::new(),
            pause: Pause::No,
            paused_mono_ns: 0,
            silent: BTreeSet::new(),
        })
    }

    /// Attaches all programs, which run from now on.
    ///
    /// # Errors
    /// If a program cannot be attached, because the counts would then be wrong.
    pub fn attach(&mut self) -> Result<(), TraceError> {
        let walker = |name| quietly(|| self.programs.walker(name)).0;
        let finder = walker(FINDER).map_err(|error| not_attached(&error))?;
        let confirmer = walker(CONFIRMER).map_err(|error| not_attached(&error))?;
        self.programs.attach()?;
        self.finder = Some(finder);
        self.confirmer = Some(confirmer);
        self.pause = Pause::No;
        Ok(())
    }

    /// Detaches the programs, so that they cost nothing. `mono_ns` is the current CLOCK_MONOTONIC
    /// in ns. The state of each vCPU is unseen from now until its first event after
    /// [`Gate::attach`]. Counts cannot be read before [`Gate::forget`].
    pub fn pause(&mut self, mono_ns: u64) {
        self.paused_mono_ns = mono_ns;
        self.programs.detach();
        self.pause = Pause::Begins;
    }

    /// Returns whether the programs are detached by [`Gate::pause`].
    pub fn is_paused(&self) -> bool {
        self.pause != Pause::No
    }

    /// Makes the states of all vCPUs unknown. Call this function some time after [`Gate::pause`],
    /// when no program runs any more.
    ///
    /// # Errors
    /// If the counts cannot be written. Then call it again.
    pub fn forget(&mut self) -> std::io::Result<()> {
        if self.pause != Pause::Begins {
            return Ok(());
        }
        let places: Vec<GateSlot> = self.present.keys().copied().collect();
        for place in places {
            if let Some(mut wire) = self.wire(place) {
                wire.forget(self.paused_mono_ns);
                self.programs
                    .set("gate_vcpus", place.0, plain::bytes(&wire))?;
            }
        }
        self.cpus.store(offset_of!(WireCpu, vcpu), 0);
        self.cpus.store(offset_of!(WireCpu, waiting), 0);
        // With this thread id, the first task that leaves the CPU counts as a task that came
        // without an event.
        self.cpus.store(offset_of!(WireCpu, tid), u32::MAX);
        self.pause = Pause::Lasts;
        Ok(())
    }

    /// Walks over all tasks of the machine, and returns the vCPUs that have come or ended since the
    /// last walk. A thread that is no longer a vCPU but still lives keeps its slot. A thread that
    /// the walk no longer finds keeps its slot until it has left its CPU for the last time.
    ///
    /// # Errors
    /// If the walk fails, or the slot of an ended vCPU cannot be freed.
    pub fn look(&mut self) -> std::io::Result<GateLook> {
        let mut look = GateLook::default();
        let mut there = BTreeMap::new();
        for found in self.found()? {
            if found.place == 0 {
                look.without_room += 1;
                continue;
            }
            let place = GateSlot(found.place);
            let found = WalkedVcpu {
                place,
                id: GateVcpuId(found.id),
                tgid: found.tgid,
                tid: found.tid,
                number: (found.number != u32::MAX).then_some(found.number),
            };
            if !self.present.contains_key(&place) {
                look.came.push(found);
            }
            there.insert(place, found);
        }
        self.silent.retain(|place| !there.contains_key(place));
        let gone = self
            .present
            .iter()
            .filter(|(place, _)| !there.contains_key(place));
        let gone: Vec<WalkedVcpu> = gone.map(|(_, found)| *found).collect();
        for found in gone {
            let place = found.place;
            match self.books(place) {
                Some(books)
                    if books.state == VcpuThreadState::Ended || self.is_silent(place, &books) =>
                {
                    let nothing = WireVcpu::default();
                    self.programs
                        .set("gate_vcpus", place.0, plain::bytes(&nothing))?;
                    self.programs.push("free_places", place.0)?;
                    self.silent.remove(&place);
                    look.ended.push((found, books));
                }
                // The vCPU's thread is ending, and may still have events.
                _ => _ = there.insert(place, found),
            }
        }
        self.present = there;
        Ok(look)
    }

    /// Walks over all tasks, and confirms the state of each vCPU in the table. This makes the
    /// vCPU's time until now final, except for a current wait.
    ///
    /// # Errors
    /// If the walk fails. The time since the previous walk becomes final at a later walk.
    pub fn confirm(&self) -> std::io::Result<()> {
        let walked = self.confirmer.as_ref().map(walk).transpose();
        walked.map(|_| ())
    }

    /// Returns whether the thread of this vCPU ended during a pause, in which no event reports an
    /// end. This is true if two walks in a row did not find the thread, and the thread had no event
    /// since the pause began.
    fn is_silent(&mut self, place: GateSlot, books: &VcpuBooks) -> bool {
        let is_silent =
            books.state == VcpuThreadState::Unseen && books.since_mono_ns <= self.paused_mono_ns;
        is_silent && !self.silent.insert(place)
    }

    /// Returns the vCPUs that the last walk found.
    pub fn present(&self) -> impl Iterator<Item = &WalkedVcpu> {
        self.present.values()
    }

    /// Returns the times of a vCPU so far. All of them are from the same instant.
    pub fn books(&self, place: GateSlot) -> Option<VcpuBooks> {
        if self.pause == Pause::Begins {
            return None;
        }
        Some(VcpuBooks::read(&self.wire(place)?))
    }

    fn wire(&self, place: GateSlot) -> Option<WireVcpu> {
        let writes = self.vcpus.u32(place.0, offset_of!(WireVcpu, writes))?;
        for _ in 0..READS {
            let before = writes.load(Acquire);
            let words = self.vcpus.words(place.0)?;
            // The fence orders the reads above before the read of `writes` below.
            fence(Acquire);
            if before % 2 == 0 && writes.load(Relaxed) == before {
                let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
                return plain::read(&bytes);
            }
        }
        None
    }

    /// Returns the recent pieces of lost time of all vCPUs. Older pieces have been overwritten.
    pub fn lost_pieces(&self) -> LostPieces {
        self.rings.read(&self.cpus)
    }

    /// Returns the number of events that the BPF programs missed because a program was already
    /// running.
    ///
    /// # Errors
    /// If the kernel does not report it.
    pub fn missed(&self) -> std::io::Result<u64> {
        self.programs.missed()
    }

    /// Returns the cost in ns of the program at task switches since [`Gate::load`], on all CPUs. It
    /// includes one reading of the clock per run. Each timed run stands for `TIMED_RUN` runs.
    pub fn probe_ns(&self) -> u64 {
        self.cpus.sum(offset_of!(WireCpu, timed_ns)) * TIMED_RUN
    }

    fn found(&self) -> std::io::Result<Vec<WireFound>> {
        let bytes = self.finder.as_ref().map_or(Ok(Vec::new()), walk)?;
        Ok(plain::read_all(&bytes).collect())
    }
}

/// Returns the number of pieces that each CPU keeps, if the pieces of all CPUs may use `bytes`
/// bytes.
fn pieces_each(bytes: u64, cpus: usize) -> u32 {
    let fit = bytes / size_of::<WirePiece>() as u64 / cpus as u64;
    let fit = u32::try_from(fit).unwrap_or(u32::MAX).max(1);
    1 << fit.ilog2().min(24)
}

fn load(btf: &KernelBtf, vcpus: u32, pieces_each: u32) -> Result<Programs, LoadError> {
    ObjectPlan {
        name: "vmnoise_gate",
        compiled: wire::OBJECT,
        reads_kvm: true,
        wants: &|name, probe| probe.is_none_or(|probe| probe.fits(name, btf)),
        entries: &|map, cpus| match map {
            "gate_cpus" => Some(cpus),
            // Index 0 is not used for a vCPU.
            "gate_vcpus" => Some(vcpus + 1),
            "free_places" => Some(vcpus),
            "gate_pieces" => Some(cpus.saturating_mul(pieces_each)),
            _ => None,
        },
        settings: &wire::settings(TOLD_FROM_NS, pieces_each.into()),
    }
    .load()
}

const _: () = assert!(size_of::<WireCpu>().is_multiple_of(8));
const _: () = assert!(size_of::<WirePiece>().is_multiple_of(8));
