//! BPF programs that observe the machine, and their loader.
//!
//! This is the only crate that uses BPF. [`Tracer`] observes one run. [`survey`] tries which
//! abilities this machine has.

mod accounting;
mod btf;
mod clock;
mod decode;
mod error;
mod exits;
mod family;
mod gate;
#[cfg(test)]
mod handlers_test;
mod interference_counter;
mod joined_btf;
mod log;
mod mapped;
mod mapped_array;
mod maps;
mod object;
mod observed;
mod own_cpus;
mod perf;
mod plain;
mod probes;
mod rate;
mod records;
mod smi;
mod steal;
mod steal_reader;
mod stop;
mod survey;
mod timer_steps;
mod timers;
mod tracer;
mod vms;
mod watched;
mod wire;

pub use clock::clock;
pub use decode::RecordDecoder;
pub use error::{LoadError, TraceError};
pub use exits::{ClockLook, ExitDecoder, ExitTracer, GuestClocks, Streaming};
pub use family::Family;
pub use gate::{
    CLASSIC_NS, Gate, GateLook, GateSlot, GateVcpuId, LostPiece, LostPieces, PieceKind, Runner,
    SCHEMA, TOLD_FROM_NS, VcpuBooks, VcpuThreadState, WaitCulprit, WaitLengths, WalkedVcpu,
};
pub use interference_counter::MappedInterferences;
pub use observed::{Observer, ThreadStay};
pub use own_cpus::{OwnCpuBooks, OwnCpus, TakenOfKind};
pub use perf::Count;
pub use probes::Scope;
pub use rate::{Rate, RateCounters};
pub use smi::SmiCounts;
pub use steal_reader::OwnStealReader;
pub use stop::{StopAsked, StopWitness};
pub use survey::survey;
pub use timer_steps::MappedTimerSteps;
pub use timers::timers;
pub use tracer::Tracer;
pub use vms::{KnownVms, VmSearch};
