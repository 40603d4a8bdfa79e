//! The tables of vCPU exits: single exits, and sums by reason.

use vmnoise_events::Share;
use vmnoise_events::column::Columns;
use vmnoise_explain::{NamedExit, ReasonExits, VcpuExits, VmExits};

use super::{parts, share_column};
use crate::table::{ColumnKind, Schema};

pub(crate) fn exits() -> Schema {
    let place = [("exit", ColumnKind::Int), ("time_utc", ColumnKind::Time)];
    Schema::new("exits", &place).with_columns(&exit_columns())
}

pub(crate) fn exit_columns() -> Columns<'static, NamedExit> {
    Columns::<NamedExit>::default()
        .name("vm", |reported| Some(&reported.vcpu.vm_name))
        .count("vmm_pid", |reported| u64::from(reported.vcpu.vmm_pid))
        .count("vcpu", |reported| reported.vcpu.number.map(u64::from))
        .count("tid", |reported| u64::from(reported.vcpu.tid))
        .count("exit_cpu", |reported| u64::from(reported.exit.exit_cpu))
        .count("entry_cpu", |reported| u64::from(reported.exit.entry_cpu))
        .time("start_mono_ns", |reported| reported.exit.start_mono_ns)
        .time("dur_ns", |reported| reported.exit.dur_ns())
        .time("noise_ns", NamedExit::noise_ns)
        .words("reason", |reported| reported.exit.reason.name())
        .count("reason_code", |reported| reported.exit.reason.code)
        .truth("heavy", |reported| reported.exit.heavy)
        .each(Share::OF_EXITS, |it, share| {
            it.time(share_column(share), move |reported| reported.shares[share])
        })
}

pub(crate) fn parts() -> Schema {
    parts::schema("exit_parts", "exit").with(&[("count", ColumnKind::Int)])
}

/// Row with the sums of a vCPU's exits for one reason.
pub(crate) type ReasonRow<'a> = (&'a VmExits, &'a VcpuExits, &'a ReasonExits);

pub(crate) fn reasons() -> Schema {
    Schema::new("reasons", &[]).with_columns(&reason_columns())
}

pub(crate) fn reason_columns<'a>() -> Columns<'static, ReasonRow<'a>> {
    Columns::<ReasonRow<'a>>::default()
        .name("vm", |(vm, ..)| Some(&vm.name))
        .count("vmm_pid", |(vm, ..)| u64::from(vm.vm))
        .count("vcpu", |(_, vcpu, _)| vcpu.vcpu.map(u64::from))
        .count("tid", |(_, vcpu, _)| u64::from(vcpu.tid))
        .name("reason", |(.., reason)| Some(&reason.name))
        .count("reason_code", |(.., reason)| reason.code)
        .count("exits", |(.., reason)| reason.count)
        .count("heavy", |(.., reason)| reason.heavy)
        .time("total_ns", |(.., reason)| reason.total_ns)
        .time("min_ns", |(.., reason)| reason.min_ns)
        .time("p99_ns", |(.., reason)| reason.p99_ns)
        .time("max_ns", |(.., reason)| reason.max_ns)
        .each(Share::OF_EXITS, |it, share| {
            it.time(share_column(share), move |(.., reason)| {
                reason.shares_ns[share]
            })
        })
}
