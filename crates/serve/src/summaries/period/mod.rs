//! A period: an hour of UTC, or the part of an hour in which this process runs. Its sums are the
//! counters at its end minus the counters at its begin. All periods together add up to the
//! counters. Pure: no clock, no BPF.

use std::collections::BTreeMap;

use jiff::Timestamp;
use vmnoise_events::Name;
use vmnoise_export::HostHour;

use super::hour;
use super::sums::Sums;
use crate::ledger::VmTotals;

const HOUR_S: i64 = 3_600;
const HOUR_NS: u64 = 3_600_000_000_000;
/// Tolerance in seconds at the begin and end of an hour. Polls are one second apart, so the end is
/// noticed late. [`SLACK_NS`] is the tolerance of the length: a clock is slewed by at most 500 ppm
/// (adjtimex(2)), which is 1.8 s an hour.
const SLACK_S: i64 = 2;
const SLACK_NS: u64 = 4_000_000_000;
/// Largest number of ended VMs in a period with their own rows. The sums of further VMs are added
/// to one row.
const ENDED: usize = 1_024;

/// One instant on two clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Instant {
    pub(super) utc: Timestamp,
    pub(super) mono_ns: u64,
}

/// Counters about this process at one instant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Itself {
    pub(super) missed_events: u64,
    /// Number of vCPUs that have no free slot in the gate's table at this instant.
    pub(super) vcpus_without_room: u32,
    pub(super) self_cpu_ns: u64,
    pub(super) probe_ns: u64,
}

/// The current period.
#[derive(Debug)]
pub(super) struct Period {
    begin: Instant,
    itself: Itself,
    /// Sums at the begin of the period, of the VMs that existed then.
    earlier: BTreeMap<Name, Sums>,
    /// Sums in this period of ended VMs. The key `None` has the sum of the VMs beyond [`ENDED`].
    ended: BTreeMap<Option<Name>, Sums>,
}

impl Period {
    pub(super) fn begin<'a>(
        begin: Instant,
        itself: Itself,
        present: impl Iterator<Item = &'a VmTotals>,
    ) -> Period {
        Period {
            begin,
            itself,
            earlier: present.map(|vm| (vm.label.clone(), Sums::of(vm))).collect(),
            ended: BTreeMap::new(),
        }
    }

    /// Returns whether `now` is in another hour than the begin of the period.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        hour_of(now) != hour_of(self.begin.utc)
    }

    /// Adds the last sums of a VM that has ended.
    pub(super) fn vm_ended(&mut self, vm: &VmTotals) {
        let sums = self.of(vm);
        // If another VM with the same name appears, its sums begin at 0.
        self.earlier.remove(&vm.label);
        let name = Some(vm.label.clone());
        let has_name = self.ended.len() < ENDED || self.ended.contains_key(&name);
        let name = name.filter(|_| has_name);
        self.ended.entry(name).or_insert_with(Sums::none).add(&sums);
    }

    pub(super) fn end<'a>(
        mut self,
        end: Instant,
        itself: Itself,
        present: impl Iterator<Item = &'a VmTotals>,
    ) -> HostHour {
        let mut vms = Vec::new();
        for vm in present {
            let mut sums = self.of(vm);
            if let Some(of_the_same_name) = self.ended.remove(&Some(vm.label.clone())) {
                sums.add(&of_the_same_name);
            }
            let name = vm.label.as_str().to_owned();
            vms.push(hour::of_vm(Some(name), vm.vcpus(), &sums));
        }
        for (name, sums) in &self.ended {
            let name = name.as_ref().map(|name| name.as_str().to_owned());
            vms.push(hour::of_vm(name, 0, sums));
        }
        let before = &self.itself;
        HostHour {
            begin: self.begin.utc,
            end: end.utc,
            period_ns: self.length_ns(end),
            is_whole: self.is_whole(end),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            missed_events: itself.missed_events.saturating_sub(before.missed_events),
            vcpus_without_room: itself.vcpus_without_room.into(),
            self_cpu_ns: itself.self_cpu_ns.saturating_sub(before.self_cpu_ns),
            probe_ns: itself.probe_ns.saturating_sub(before.probe_ns),
            vms,
        }
    }

    /// Returns the sums of this VM since the begin of the period.
    fn of(&self, vm: &VmTotals) -> Sums {
        let sums = Sums::of(vm);
        match self.earlier.get(&vm.label) {
            Some(earlier) => sums.since(earlier),
            None => sums,
        }
    }

    fn length_ns(&self, end: Instant) -> u64 {
        end.mono_ns.saturating_sub(self.begin.mono_ns)
    }

    /// Returns whether the period covers its whole hour, and no clock was set during it.
    fn is_whole(&self, end: Instant) -> bool {
        let after = |time: Timestamp| time.as_second().rem_euclid(HOUR_S);
        after(self.begin.utc) < SLACK_S
            && after(end.utc) < SLACK_S
            && hour_of(end.utc) == hour_of(self.begin.utc) + 1
            && self.length_ns(end).abs_diff(HOUR_NS) < SLACK_NS
    }
}

/// Returns the number of full hours since 1970 (UTC).
fn hour_of(time: Timestamp) -> i64 {
    time.as_second().div_euclid(HOUR_S)
}

#[cfg(test)]
mod tests;
