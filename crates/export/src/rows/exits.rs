//! Exits of vCPUs: told one by one, and counted by reason.

use vmnoise_events::{Share, ShareMap};
use vmnoise_explain::{NamedExit, ReasonExits, VcpuExits, VmExits};

use super::parts;
use crate::table::{Cell, Kind, Schema};

/// Which vCPU.
const VCPU: [(&str, Kind); 4] = [
    ("vm", Kind::Text),
    ("vmm_pid", Kind::Int),
    ("vcpu", Kind::Int),
    ("tid", Kind::Int),
];

pub(crate) fn exits() -> Schema {
    Schema::new("exits", &[("exit", Kind::Int), ("time_utc", Kind::Time)])
        .with(&VCPU)
        .with(&[
            ("exit_cpu", Kind::Int),
            ("entry_cpu", Kind::Int),
            ("start_mono_ns", Kind::Int),
            ("dur_ns", Kind::Int),
            ("noise_ns", Kind::Int),
            ("reason", Kind::Text),
            ("reason_code", Kind::Int),
            ("heavy", Kind::Bool),
        ])
        .with_shares(Share::OF_EXITS)
}

pub(crate) fn exit_row<'a>(
    number: u64,
    time_us: Option<i64>,
    told: &'a NamedExit,
    reason: &'a str,
) -> impl Iterator<Item = Cell<'a>> {
    let NamedExit { vcpu, exit, .. } = told;
    let of_vcpu = [
        Cell::from(number),
        time_us.into(),
        vcpu.vm_name.as_str().into(),
        vcpu.vmm_pid.into(),
        vcpu.number.into(),
        vcpu.tid.into(),
    ];
    let of_exit = [
        exit.exit_cpu.into(),
        exit.entry_cpu.into(),
        exit.start_mono_ns.into(),
        exit.dur_ns().into(),
        told.noise_ns().into(),
        reason.into(),
        exit.reason.code.into(),
        exit.heavy.into(),
    ];
    of_vcpu
        .into_iter()
        .chain(of_exit)
        .chain(split(&told.shares))
}

fn split<'a>(shares: &ShareMap<Option<u64>>) -> [Cell<'a>; Share::OF_EXITS.len()] {
    shares.select(Share::OF_EXITS).map(|(_, ns)| ns.into())
}

pub(crate) fn parts() -> Schema {
    parts::schema("exit_parts", "exit").with(&[("count", Kind::Int)])
}

pub(crate) fn reasons() -> Schema {
    Schema::new("reasons", &VCPU)
        .with(&[
            ("reason", Kind::Text),
            ("reason_code", Kind::Int),
            ("exits", Kind::Int),
            ("heavy", Kind::Int),
            ("total_ns", Kind::Int),
            ("min_ns", Kind::Int),
            ("p99_ns", Kind::Int),
            ("max_ns", Kind::Int),
        ])
        .with_shares(Share::OF_EXITS)
}

pub(crate) fn reason_row<'a>(
    vm: &'a VmExits,
    vcpu: &'a VcpuExits,
    reason: &'a ReasonExits,
) -> impl Iterator<Item = Cell<'a>> {
    let head = [
        Cell::from(vm.name.as_str()),
        vm.vm.into(),
        vcpu.vcpu.into(),
        vcpu.tid.into(),
        reason.name.as_str().into(),
        reason.code.into(),
        reason.count.into(),
        reason.heavy.into(),
        reason.total_ns.into(),
        reason.min_ns.into(),
        reason.p99_ns.into(),
        reason.max_ns.into(),
    ];
    head.into_iter().chain(split(&reason.shares_ns))
}
