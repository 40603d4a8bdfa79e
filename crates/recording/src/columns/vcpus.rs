//! Converts vCPUs, their intervals and their exits to columns.

use vmnoise_events::{
    Exit, ReasonTotals, Share, ShareMap, Vcpu, VcpuClock, VcpuId, VcpuInterval, VcpuTotals,
};

use super::{Columns, Row};
use crate::schema::{counter, event};

impl Columns {
    pub(super) fn push_vcpu(&mut self, vcpu: &Vcpu) {
        self.push(&Row {
            event: event::VCPU,
            vcpu: Some(vcpu.id.0),
            name: Some(&vcpu.vm_name),
            counters: Some(&[
                (counter::TID, Some(vcpu.tid.into())),
                (counter::VMM_PID, Some(vcpu.vmm_pid.into())),
                (counter::NUMBER, vcpu.number.map(u64::from)),
                (counter::VM, Some(vcpu.vm)),
                (counter::SEES_KVM, Some(vcpu.sees_kvm.into())),
            ]),
            ..Row::default()
        });
        for (fact, word) in vcpu.identity.known() {
            self.push(&Row {
                event: event::VM_FACT,
                vcpu: Some(vcpu.id.0),
                kind: Some(fact.number()),
                name: Some(word),
                ..Row::default()
            });
        }
    }

    pub(super) fn push_clock(&mut self, clock: &VcpuClock) {
        self.push(&Row {
            event: event::VCPU_CLOCK,
            vcpu: Some(clock.vcpu.0),
            start_mono_ns: Some(clock.before_until_mono_ns),
            end_mono_ns: Some(clock.from_mono_ns),
            counters: Some(&[
                (counter::OFFSET_TSC, Some(clock.offset_tsc.cast_unsigned())),
                (counter::RATIO, Some(clock.ratio)),
                (counter::RATIO_FRAC_BITS, Some(clock.ratio_frac_bits.into())),
            ]),
            ..Row::default()
        });
    }

    pub(super) fn push_interval(&mut self, interval: &VcpuInterval) {
        self.push(&Row {
            event: event::VCPU_INTERVAL,
            vcpu: Some(interval.vcpu.0),
            kind: Some(interval.kind.number()),
            start_mono_ns: Some(interval.start_mono_ns),
            end_mono_ns: Some(interval.end_mono_ns),
            cpu: Some(interval.cpu),
            to_cpu: Some(interval.to_cpu),
            source: interval.source.map(|id| id.0),
            ..Row::default()
        });
    }

    pub(super) fn push_exit(&mut self, number: u8, vcpu: VcpuId, exit: &Exit) {
        let code = [(counter::CODE, Some(exit.reason.code))];
        let counters: Vec<_> = code.into_iter().chain(parts(&exit.split)).collect();
        self.push(&Row {
            event: number,
            vcpu: Some(vcpu.0),
            kind: Some(exit.reason.isa.number()),
            start_mono_ns: Some(exit.start_mono_ns),
            end_mono_ns: Some(exit.end_mono_ns),
            cpu: Some(exit.exit_cpu),
            to_cpu: Some(exit.entry_cpu),
            heavy_exits: Some(exit.heavy.into()),
            counters: Some(&counters),
            ..Row::default()
        });
    }

    /// Adds one row for the totals, then one row for each reason, then one row for the longest
    /// exit.
    pub(super) fn push_totals(&mut self, totals: &VcpuTotals) {
        let counts = [
            (counter::EXITS, Some(totals.exits)),
            (counter::HEAVY, Some(totals.heavy)),
            (
                counter::UNSEEN_NS,
                (totals.unseen_ns > 0).then_some(totals.unseen_ns),
            ),
        ];
        let counters: Vec<_> = counts.into_iter().chain(parts(&totals.split)).collect();
        self.push(&Row {
            event: event::VCPU_TOTALS,
            vcpu: Some(totals.vcpu.0),
            start_mono_ns: Some(totals.first_mono_ns),
            end_mono_ns: Some(totals.last_mono_ns),
            counters: Some(&counters),
            ..Row::default()
        });
        for reason in &totals.reasons {
            self.push_reason(totals.vcpu, reason);
        }
        if let Some(worst) = &totals.worst {
            self.push_exit(event::LONGEST_EXIT, totals.vcpu, worst);
        }
    }

    fn push_reason(&mut self, vcpu: VcpuId, totals: &ReasonTotals) {
        let edges = totals.histogram.iter();
        let buckets: Vec<(String, u64)> = edges
            .map(|(edge_ns, count)| (format!("{}{edge_ns}", counter::UP_TO), *count))
            .collect();
        let numbers = [
            (counter::CODE, totals.reason.map(|reason| reason.code)),
            (counter::EXITS, Some(totals.count)),
            (counter::HEAVY, Some(totals.heavy)),
            (counter::MIN_NS, Some(totals.min_ns)),
            (counter::MAX_NS, Some(totals.max_ns)),
        ];
        let counters: Vec<_> = numbers
            .into_iter()
            .chain(parts(&totals.split))
            .chain(
                buckets
                    .iter()
                    .map(|(key, count)| (key.as_str(), Some(*count))),
            )
            .collect();
        self.push(&Row {
            event: event::REASON_TOTALS,
            vcpu: Some(vcpu.0),
            kind: totals.reason.map(|reason| reason.isa.number()),
            counters: Some(&counters),
            ..Row::default()
        });
    }
}

/// Returns the parts of a split by name, with `None` for parts that are 0. Most parts of most exits
/// are 0.
pub(super) fn parts<'a>(
    split: &ShareMap<u64>,
) -> impl Iterator<Item = (&'a str, Option<u64>)> + use<'a> {
    let parts = split.select(Share::OF_EXITS).into_iter();
    parts.map(|(share, ns)| (share.name(), (ns > 0).then_some(ns)))
}
