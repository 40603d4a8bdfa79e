//! Additional data for a run that stops at a limit. These are the kernel's stack at the timer's
//! interrupt, and the tasks that had each CPU of the machine. The programs run only if at least one
//! of the two is wanted.

mod symbols;
mod wire;

use std::mem::offset_of;
use std::os::fd::AsFd;
use std::path::Path;

use libbpf_rs::{Link, MapCore, Object, ObjectBuilder};
use vmnoise_events::{Occupant, StackFrame};

use self::symbols::Symbols;
use self::wire::{OBJECT, WireStack, WireStacks, WireTurn, WireTurns};
use crate::error::{LoadError, TraceError};
use crate::log::quietly;
use crate::mapped_array::MappedArray;
use crate::maps::Maps;
use crate::object::why_not;
use crate::plain;

/// Kinds of data that are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StopAsked {
    /// Whether the stack of each wake-up is wanted.
    pub stacks: bool,
    /// Whether the tasks that had each CPU are wanted.
    pub turns: bool,
}

/// The programs, which observe from [`StopWitness::attach`] until this value is dropped.
#[derive(Debug)]
pub struct StopWitness {
    // This field is dropped first, so that no program runs while the other fields are dropped.
    links: Vec<Link>,
    object: Object,
    stacks: MappedArray<WireStacks>,
    turns: MappedArray<WireTurns>,
    symbols: Symbols,
}

impl StopWitness {
    /// Loads the programs. Nothing runs yet. If stacks are wanted, also reads the names of the
    /// kernel's functions. Call it before rights are dropped.
    ///
    /// # Errors
    /// [`LoadError::Refused`] if this machine does not allow BPF, or this process has no right to
    /// use it. [`LoadError::Broken`] if BPF is allowed, but the programs do not load.
    pub fn load(asked: StopAsked) -> Result<StopWitness, LoadError> {
        let symbols = match asked.stacks {
            true => Symbols::read(Path::new("/proc/kallsyms")).map_err(|error| {
                LoadError::Refused {
                    why: format!("/proc/kallsyms shows no addresses ({error}), and frames of stacks would have no names"),
                    remedy: "run as root".to_owned(),
                }
            })?,
            false => Symbols::default(),
        };
        let (result, warnings) = quietly(|| load(asked));
        let object = result.map_err(|error| why_not(&error, &warnings))?;
        let broken = |error: std::io::Error| LoadError::Broken(format!("the stops: {error}"));
        let [stacks, turns] = ["stop_stacks", "stop_turns"].map(|name| object.map(name));
        let stacks = MappedArray::map(stacks.as_fd(), stacks.max_entries() as usize);
        let turns = MappedArray::map(turns.as_fd(), turns.max_entries() as usize);
        Ok(StopWitness {
            stacks: stacks.map_err(broken)?,
            turns: turns.map_err(broken)?,
            links: Vec::new(),
            object,
            symbols,
        })
    }

    /// Sets the task of a CPU whose wake-ups are observed.
    pub fn watch(&self, cpu: u32, tid: u32) {
        use std::sync::atomic::Ordering::Release;
        if let Some(word) = self.stacks.u64(cpu, offset_of!(WireStacks, tid)) {
            word.store(tid.into(), Release);
        }
    }

    /// Attaches the programs. They run from now on.
    ///
    /// # Errors
    /// If a program cannot be attached.
    pub fn attach(&mut self) -> Result<(), TraceError> {
        let attach = || -> libbpf_rs::Result<Vec<Link>> {
            let programs = self.object.progs_mut().filter(|it| it.autoload());
            programs.map(|program| program.attach()).collect()
        };
        let (result, _) = quietly(attach);
        self.links = result.map_err(|error| TraceError::NothingAttached(format!("{error:#}")))?;
        Ok(())
    }

    /// Returns the stack that was interrupted when the task of this CPU was woken. The wake-up is
    /// the one between the two given instants (CLOCK_MONOTONIC in ns). `None` if no stack of this
    /// time is stored.
    pub fn stack(&self, cpu: u32, from_ns: u64, until_ns: u64) -> Option<Vec<StackFrame>> {
        let stacks = entries(&self.stacks.words(cpu)?, offset_of!(WireStacks, last));
        let when = |mono_ns| mono_ns > 0 && (from_ns..=until_ns).contains(&mono_ns);
        let stack: WireStack = stacks.into_iter().find(|it: &WireStack| when(it.mono_ns))?;
        let frames = usize::try_from(stack.frames).ok()?;
        let frames = stack.frame.iter().take(frames);
        Some(frames.map(|address| self.frame(*address)).collect())
    }

    fn frame(&self, address: u64) -> StackFrame {
        StackFrame {
            address,
            function: self.symbols.name(address).map(str::to_owned),
        }
    }

    /// Returns the task that had each CPU at the given instant (CLOCK_MONOTONIC in ns), ordered by
    /// CPU. An entry is `None` if no switch before this instant was recorded on the CPU.
    pub fn occupants(&self, at_ns: u64) -> Vec<Option<Occupant>> {
        let slots = 0..u32::try_from(self.turns.slots()).unwrap_or(u32::MAX);
        let of = |cpu| {
            let turns = entries(&self.turns.words(cpu)?, offset_of!(WireTurns, last));
            let before = turns
                .into_iter()
                .filter(|turn: &WireTurn| (1..=at_ns).contains(&turn.mono_ns));
            let turn = before.max_by_key(|turn| turn.mono_ns)?;
            let comm = turn.comm.iter().flat_map(|word| word.to_ne_bytes());
            let comm: Vec<u8> = comm.take_while(|byte| *byte != 0).collect();
            Some(Occupant {
                comm: String::from_utf8_lossy(&comm).into_owned(),
                tid: u32::try_from(turn.tid).ok()?,
            })
        };
        slots.map(of).collect()
    }
}

/// Returns the entries of a slot of the map, which begin at byte `first`. Copying a whole slot of
/// tens of kilobytes would need too much stack.
fn entries<Entry: plain::Plain>(words: &[u64], first: usize) -> Vec<Entry> {
    let words = words.get(first / size_of::<u64>()..).unwrap_or_default();
    let entries = words.chunks_exact(size_of::<Entry>() / size_of::<u64>());
    let bytes = entries.map(|words| -> Vec<u8> {
        let bytes = words.iter().flat_map(|word| word.to_ne_bytes());
        bytes.collect()
    });
    bytes.filter_map(|bytes| plain::read(&bytes)).collect()
}

fn load(asked: StopAsked) -> libbpf_rs::Result<Object> {
    let mut builder = ObjectBuilder::default();
    let mut open = builder.name("vmnoise_stop")?.open_memory(OBJECT)?;
    for mut program in open.progs_mut() {
        let wanted = match program.name().to_str() {
            Some("keep_stack") => asked.stacks,
            _ => asked.turns,
        };
        program.set_autoload(wanted);
    }
    let cpus = u32::try_from(libbpf_rs::num_possible_cpus()?).unwrap_or(u32::MAX);
    for mut map in open.maps_mut() {
        let wanted = match map.name().to_str() {
            Some("stop_stacks") => asked.stacks,
            Some("stop_turns") => asked.turns,
            _ => continue,
        };
        map.set_max_entries(if wanted { cpus } else { 1 })?;
    }
    open.load()
}
