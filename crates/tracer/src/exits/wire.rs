//! The Rust types of `bpf/exits.h`, generated from the object's BTF.

use std::mem::offset_of;

use libbpf_rs::Object;
use vmnoise_events::VcpuIntervalKind;

use super::Streaming;
use crate::maps::Maps;
use crate::object::compiled;
use crate::plain::{self, Plain};

compiled!("exits");

pub(super) use generated::types::{
    bss as Globals, exits_cpu as WireCpu, exits_exit as WireExit, exits_interval as WireInterval,
    exits_reason as WireReason, exits_split as WireSplit, exits_told as WireReported,
    exits_tsc_write as WireTscWrite, exits_vcpu as WireVcpu,
};
use generated::types::{data as Controls, exits_interval_kind as Kind, rodata as Settings};

const _: () = {
    assert!(offset_of!(WireInterval, what) == 0);
    assert!(Kind::EXITS_VMM.0 == VcpuIntervalKind::Vmm.number() as u32);
    assert!(Kind::EXITS_WAITING.0 == VcpuIntervalKind::Waiting.number() as u32);
    assert!(Kind::EXITS_BLOCKED.0 == VcpuIntervalKind::Blocked.number() as u32);
    assert!(Kind::EXITS_HALTED.0 == VcpuIntervalKind::Halted.number() as u32);
};

/// Returns the settings that the programs get before they are loaded, as the content of their
/// `.rodata`.
pub(super) fn settings(kvm_run_only: bool, preempt_rt: bool, streaming: Streaming) -> Vec<u8> {
    let mut bytes = vec![0; size_of::<Settings>()];
    bytes[offset_of!(Settings, kvm_run_only)] = kvm_run_only.into();
    bytes[offset_of!(Settings, preempt_rt)] = preempt_rt.into();
    bytes[offset_of!(Settings, timed)] = (streaming == Streaming::Stretches).into();
    bytes[offset_of!(Settings, streaming)] = (streaming != Streaming::Off).into();
    if let Streaming::Exits { threshold_ns } = streaming {
        let at = offset_of!(Settings, threshold_ns);
        bytes[at..at + size_of::<u64>()].copy_from_slice(&threshold_ns.to_ne_bytes());
    }
    bytes
}

/// Returns the content of `.data`, which controls the running programs. `counting`: whether they
/// count. `followed` is the only process whose vCPUs they count; 0 means all processes.
pub(super) fn controls(counting: bool, followed: u32) -> Vec<u8> {
    let controls = Controls {
        counting: counting.into(),
        followed,
    };
    plain::bytes(&controls).to_vec()
}

/// Returns the programs' own variables.
pub(super) fn globals(object: &Object) -> std::io::Result<Globals> {
    let globals = object.value(".bss", 0)?;
    globals.ok_or_else(|| std::io::Error::other("the programs' own variables are too short"))
}

impl Plain for Controls {}
impl Plain for Globals {}
impl Plain for WireCpu {}
impl Plain for WireInterval {}
impl Plain for WireReason {}
impl Plain for WireReported {}
impl Plain for WireTscWrite {}
impl Plain for WireVcpu {}
